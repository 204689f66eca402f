package picture

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
	"io"
)

// metadata is the data of an image file, apart from its pixels, that affects its appearance.
type metadata struct {
	profile []byte // ICC
	exif    []byte // TIFF structure, without a container's prefix
}

// maxProfileBytes is the maximum size of a profile. Real ones are much smaller; larger ones are dropped.
const maxProfileBytes = 4 << 20

const (
	iccPrefix  = "ICC_PROFILE\x00"
	exifPrefix = "Exif\x00\x00"
)

// normalize drops profiles that are not for RGB, because the encoded pixels are RGB, and removes the prefix of EXIF data.
func (m metadata) normalize() metadata {
	if len(m.profile) < 20 || len(m.profile) > maxProfileBytes || string(m.profile[16:20]) != "RGB " {
		m.profile = nil
	}
	m.exif = bytes.TrimPrefix(m.exif, []byte(exifPrefix))
	return m
}

func jpegMetadata(data []byte) metadata {
	var m metadata
	for pos := 2; pos+4 <= len(data) && data[pos] == 0xFF; {
		marker, size := data[pos+1], int(binary.BigEndian.Uint16(data[pos+2:]))
		if marker == 0xDA || size < 2 || pos+2+size > len(data) { // start of the pixels, or damaged
			break
		}
		body := data[pos+4 : pos+2+size]
		switch {
		case marker == 0xE1 && m.exif == nil && bytes.HasPrefix(body, []byte(exifPrefix)):
			m.exif = body
		case marker == 0xE2 && bytes.HasPrefix(body, []byte(iccPrefix)) && len(body) > len(iccPrefix)+2:
			m.profile = append(m.profile, body[len(iccPrefix)+2:]...)
		}
		pos += 2 + size
	}
	return m.normalize()
}

func pngMetadata(data []byte) metadata {
	var m metadata
	for pos := 8; pos+12 <= len(data); {
		size := int(binary.BigEndian.Uint32(data[pos:]))
		if size < 0 || size > len(data)-pos-12 {
			break
		}
		body := data[pos+8 : pos+8+size]
		switch string(data[pos+4 : pos+8]) {
		case "iCCP":
			if name := bytes.IndexByte(body, 0); name >= 0 && name+2 <= len(body) {
				m.profile = inflate(body[name+2:])
			}
		case "eXIf":
			m.exif = body
		}
		pos += 12 + size
	}
	return m.normalize()
}

func webpMetadata(data []byte) metadata {
	var m metadata
	for pos := 12; pos+8 <= len(data); {
		size := int(binary.LittleEndian.Uint32(data[pos+4:]))
		if size < 0 || size > len(data)-pos-8 {
			break
		}
		body := data[pos+8 : pos+8+size]
		switch string(data[pos : pos+4]) {
		case "ICCP":
			m.profile = body
		case "EXIF":
			m.exif = body
		}
		pos += 8 + size + size%2
	}
	return m.normalize()
}

func inflate(p []byte) []byte {
	r, err := zlib.NewReader(bytes.NewReader(p))
	if err != nil {
		return nil
	}
	out, err := io.ReadAll(io.LimitReader(r, maxProfileBytes+1))
	if err != nil {
		return nil
	}
	return out
}

// insertJPEG inserts the metadata after the first marker of an encoded file.
func (m metadata) insertJPEG(data []byte) []byte {
	out := append([]byte(nil), data[:2]...)
	segment := func(marker byte, prefix string, body []byte) {
		out = append(out, 0xFF, marker)
		out = binary.BigEndian.AppendUint16(out, uint16(2+len(prefix)+len(body)))
		out = append(append(out, prefix...), body...)
	}
	const most = 0xFFFF - 2
	if len(m.exif) > 0 && len(m.exif) <= most-len(exifPrefix) {
		segment(0xE1, exifPrefix, m.exif)
	}
	const piece = most - len(iccPrefix) - 2
	if pieces := (len(m.profile) + piece - 1) / piece; pieces <= 255 {
		for i := range pieces {
			segment(0xE2, iccPrefix+string([]byte{byte(i + 1), byte(pieces)}), m.profile[i*piece:min(len(m.profile), (i+1)*piece)])
		}
	}
	return append(out, data[2:]...)
}

// insertPNG inserts the metadata after the header chunk of an encoded file.
func (m metadata) insertPNG(data []byte) []byte {
	const header = 8 + 12 + 13
	out := append([]byte(nil), data[:header]...)
	chunk := func(name string, body []byte) {
		out = binary.BigEndian.AppendUint32(out, uint32(len(body)))
		from := len(out)
		out = append(append(out, name...), body...)
		out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out[from:]))
	}
	if len(m.profile) > 0 {
		var packed bytes.Buffer
		packed.WriteString("profile\x00\x00")
		w := zlib.NewWriter(&packed)
		_, err := w.Write(m.profile)
		if cerr := w.Close(); err == nil && cerr == nil {
			chunk("iCCP", packed.Bytes())
		}
	}
	if len(m.exif) > 0 {
		chunk("eXIf", m.exif)
	}
	return append(out, data[header:]...)
}
