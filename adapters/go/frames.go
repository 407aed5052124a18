package maitred

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Kinds of frames and their flags (PROTOCOL.md, section 2).
const (
	kindRequest  = 1
	kindForget   = 2
	kindCancel   = 3
	kindPing     = 4
	kindShutdown = 5
	kindWelcome  = 6
	kindTrailers = 7
	kindHello    = 65
	kindDone     = 66
	kindTail     = 67
	kindPong     = 68
	kindDetach   = 69
	kindLimits   = 70

	flagOptional = 1 << 7

	flagKeep      = 1 << 0
	flagHTTP10    = 1 << 1
	flagHead      = 1 << 2
	flagBodyFD    = 1 << 3
	flagMayDetach = 1 << 4
	requestFlags  = flagKeep | flagHTTP10 | flagHead | flagBodyFD | flagMayDetach

	flagRecovers = 1 << 1

	flagClean = 1 << 0
	flagClose = 1 << 1

	flagFile = 1 << 0
)

// Limits of the protocol (section 9).
const (
	version             = 1
	headerBytes         = 16
	payloadBytesMax     = 2 << 20
	metaBytesMax        = 4096
	tailBytesMax        = 64 << 10
	tailTotalBytesMax   = 1 << 20
	descriptorsMax      = 253
	frameDescriptorsMax = 2
	capacityMax         = 65536
)

// errViolation says that Maitred did what the protocol does not allow; where the next frame begins is unknown.
var errViolation = errors.New("maitred: protocol violation")

func violation(format string, arguments ...any) error {
	return fmt.Errorf("%w: %s", errViolation, fmt.Sprintf(format, arguments...))
}

// header is what stands before each payload.
type header struct {
	payload     int
	kind, flags byte
	descriptors int
	connection  uint32
	request     uint32
}

// parseHeader reads a header from at least headerBytes bytes, and refuses what could only be noise.
func parseHeader(data []byte, payloadMax int) (header, error) {
	length := binary.LittleEndian.Uint32(data)
	h := header{
		kind:        data[4],
		flags:       data[5],
		descriptors: int(binary.LittleEndian.Uint16(data[6:])),
		connection:  binary.LittleEndian.Uint32(data[8:]),
		request:     binary.LittleEndian.Uint32(data[12:]),
	}
	if uint64(length) > uint64(payloadMax) {
		return h, violation("a payload of %d bytes; %d are allowed", length, payloadMax)
	}
	h.payload = int(length)
	if h.descriptors > frameDescriptorsMax {
		return h, violation("%d descriptors in one frame", h.descriptors)
	}
	return h, h.check()
}

// check refuses frames whose kind, flags, descriptors and length do not go together.
func (h header) check() error {
	wanted := 0
	switch h.kind {
	case kindRequest:
		return h.checkRequest()
	case kindTrailers:
		// A payload of none is refused by what reads it.
		if wanted = h.payload; wanted > trailerBytesMax {
			return violation("TRAILERS of %d bytes", wanted)
		}
	case kindForget, kindCancel, kindPing, kindShutdown:
	case kindWelcome:
		wanted = 8
	default:
		if h.flags&flagOptional == 0 {
			return violation("frame of the unknown kind %d", h.kind)
		}
		return nil
	}
	if h.flags&^flagOptional != 0 || h.descriptors != 0 || h.payload != wanted {
		return violation("frame of kind %d with flags %#x, %d descriptors, %d bytes", h.kind, h.flags, h.descriptors, h.payload)
	}
	return nil
}

func (h header) checkRequest() error {
	body := 0
	if h.flags&flagBodyFD != 0 {
		body = 1
	}
	switch {
	case h.flags&^requestFlags != 0:
		return violation("REQUEST with unknown flags %#x", h.flags)
	case h.flags&flagBodyFD != 0 && h.flags&flagMayDetach != 0:
		return violation("REQUEST with both BODY_FD and MAY_DETACH")
	case h.descriptors < body || h.descriptors > body+1:
		return violation("REQUEST with flags %#x and %d descriptors", h.flags, h.descriptors)
	}
	return nil
}

// parts splits the payload of a REQUEST into meta, head and body.
func parts(payload []byte) (meta, head, body []byte, err error) {
	if len(payload) < 12 {
		return nil, nil, nil, violation("REQUEST with a payload of %d bytes", len(payload))
	}
	metaLength := uint64(binary.LittleEndian.Uint32(payload))
	headLength := uint64(binary.LittleEndian.Uint32(payload[4:]))
	bodyLength := uint64(binary.LittleEndian.Uint32(payload[8:]))
	if 12+metaLength+headLength+bodyLength != uint64(len(payload)) || metaLength > metaBytesMax {
		return nil, nil, nil, violation("parts of REQUEST that do not add up: %d, %d, %d", metaLength, headLength, bodyLength)
	}
	text := payload[12:]
	return text[:metaLength], text[metaLength : metaLength+headLength], text[metaLength+headLength:], nil
}

func appendHeader(out []byte, payload int, kind, flags byte, descriptors uint16, connection, request uint32) []byte {
	out = binary.LittleEndian.AppendUint32(out, uint32(payload))
	out = append(out, kind, flags)
	out = binary.LittleEndian.AppendUint16(out, descriptors)
	out = binary.LittleEndian.AppendUint32(out, connection)
	return binary.LittleEndian.AppendUint32(out, request)
}

func appendHello(out []byte, capacity int, name string, recovers bool) []byte {
	flags := byte(0)
	if recovers {
		flags = flagRecovers
	}
	out = appendHeader(out, 8+len(name), kindHello, flags, 0, 0, 0)
	out = binary.LittleEndian.AppendUint16(out, version)
	out = binary.LittleEndian.AppendUint16(out, version)
	out = binary.LittleEndian.AppendUint32(out, uint32(capacity))
	return append(out, name...)
}

// appendLimits says how many files the process may have open.
func appendLimits(out []byte, openFiles uint64) []byte {
	out = appendHeader(out, 4, kindLimits, flagOptional, 0, 0, 0)
	if openFiles > math.MaxUint32 {
		openFiles = math.MaxUint32
	}
	return binary.LittleEndian.AppendUint32(out, uint32(openFiles))
}

// done is what DONE says.
type done struct {
	flags     byte
	status    int
	serviceUS uint32
	bodyBytes uint64
}

func appendDone(out []byte, connection, request uint32, d done) []byte {
	out = appendHeader(out, 16, kindDone, d.flags, 0, connection, request)
	out = binary.LittleEndian.AppendUint16(out, uint16(d.status))
	out = binary.LittleEndian.AppendUint16(out, 0)
	out = binary.LittleEndian.AppendUint32(out, d.serviceUS)
	return binary.LittleEndian.AppendUint64(out, d.bodyBytes)
}

func appendTail(out []byte, connection, request uint32, data []byte) []byte {
	out = appendHeader(out, len(data), kindTail, 0, 0, connection, request)
	return append(out, data...)
}

func appendTailFile(out []byte, connection, request uint32, offset, length int64) []byte {
	out = appendHeader(out, 16, kindTail, flagFile, 1, connection, request)
	out = binary.LittleEndian.AppendUint64(out, uint64(offset))
	return binary.LittleEndian.AppendUint64(out, uint64(length))
}

func appendPong(out []byte, request uint32) []byte {
	return appendHeader(out, 0, kindPong, 0, 0, 0, request)
}

func appendDetach(out []byte, connection, request uint32) []byte {
	out = appendHeader(out, 4, kindDetach, 0, 0, connection, request)
	return append(out, 101, 0, 0, 0)
}
