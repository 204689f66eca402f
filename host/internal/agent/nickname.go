package agent

import (
	"fmt"
	"strings"
)

// pool has the nicknames of agents, by which people tell them apart.
var pool = strings.Fields(`Acorn Alder Amber Anchor Apricot Arrow Aspen Badger Bamboo Basil Beacon Birch Bramble Breeze Brook Canyon Cedar Cinder
Clover Cobalt Comet Coral Cricket Crocus Dahlia Delta Dune Ember Falcon Fennel Fern Finch Flint Gale Garnet Ginger Glacier Granite Harbor
Hazel Heron Holly Indigo Iris Ivory Jasper Juniper Kestrel Lagoon Lantern Larch Lark Laurel Lichen Linden Lotus Lupin Lynx Maple Marble
Marten Meadow Mint Mistral Moss Myrtle Nettle Nutmeg Oak Obsidian Olive Onyx Opal Orchid Osprey Otter Pebble Pepper Pine Plover Poppy
Prairie Quail Quartz Quince Raven Reed Ridge Robin Rowan Saffron Sage Sequoia Shale Sorrel Sparrow Spruce Starling Summit Swift Tansy Teal
Thistle Thrush Thyme Tundra Umber Vale Violet Walnut Willow Wren Yarrow Zephyr`)

// nickname chooses a nickname that is not used. pick returns a number below n. When all are used, they are used again with a number.
func nickname(names []string, used map[string]bool, pick func(n int) int) string {
	for round := 1; ; round++ {
		var free []string
		for _, n := range names {
			if n = again(n, round); !used[n] {
				free = append(free, n)
			}
		}
		if len(free) > 0 {
			return free[pick(len(free))]
		}
	}
}

// again returns a name as it is used in a round.
func again(name string, round int) string {
	if round == 1 {
		return name
	}
	suffix := "th"
	if tens := round / 10 % 10; tens != 1 {
		switch round % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprintf("%s the %d%s", name, round, suffix)
}
