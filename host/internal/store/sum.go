package store

import (
	"encoding/binary"
	"hash/crc32"
)

// noSum stands in the place of the checksum of events that were stored before there were checksums.
const noSum = -1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is what Sum is of a row that says what was written. Which thread it is of is not in it: a fork has the same rows.
// It finds bytes that a disk has changed, and nobody's intent.
func (r *eventRow) checksum() int64 {
	head := binary.AppendUvarint(make([]byte, 0, 64), r.Seq)
	head = binary.AppendVarint(head, r.Time)
	head = binary.AppendUvarint(head, uint64(len(r.TurnID)))
	head = append(head, r.TurnID...)
	head = binary.AppendUvarint(head, uint64(len(r.Kind)))
	head = append(head, r.Kind...)
	return int64(crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, []byte(r.Body)))
}
