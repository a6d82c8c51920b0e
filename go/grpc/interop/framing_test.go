package interop

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// The conformance suite exchanges messages of these kinds with what it tests, each after its length
// as 4 bytes. Its Go types are internal, so the few fields that matter here are read and written as
// protobuf's wire format.
const (
	// In a ServerCompatRequest.
	serverRequestVersion protowire.Number = 2
	// In a ServerCompatResponse.
	serverResponseHost protowire.Number = 1
	serverResponsePort protowire.Number = 2
	// In a ClientCompatRequest.
	clientRequestVersion protowire.Number = 2
	clientRequestHost    protowire.Number = 6
	clientRequestPort    protowire.Number = 7

	// httpVersion2 is HTTP/2 in an HTTPVersion.
	httpVersion2 = 2

	// messageMax bounds the bytes of a message that is read.
	messageMax = 16 << 20
)

func readMessage(from io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(from, length[:]); err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(length[:])
	if size > messageMax {
		return nil, fmt.Errorf("message of %d bytes: at most %d are read", size, messageMax)
	}
	message := make([]byte, size)
	if _, err := io.ReadFull(from, message); err != nil {
		return nil, fmt.Errorf("message: %w", err)
	}
	return message, nil
}

func writeMessage(to io.Writer, message []byte) error {
	framed := binary.BigEndian.AppendUint32(nil, uint32(len(message)))
	_, err := to.Write(append(framed, message...))
	return err
}

var errMalformed = errors.New("malformed protobuf message")

// varintOf returns a field of a message, or 0 if it is absent.
func varintOf(message []byte, field protowire.Number) (uint64, error) {
	var value uint64
	err := eachField(message, func(number protowire.Number, kind protowire.Type, _, content []byte) {
		if number == field && kind == protowire.VarintType {
			value, _ = protowire.ConsumeVarint(content)
		}
	})
	return value, err
}

// textOf returns a field of a message, or "" if it is absent.
func textOf(message []byte, field protowire.Number) (string, error) {
	var value string
	err := eachField(message, func(number protowire.Number, kind protowire.Type, _, content []byte) {
		if number == field && kind == protowire.BytesType {
			bytes, _ := protowire.ConsumeBytes(content)
			value = string(bytes)
		}
	})
	return value, err
}

// withAddress returns the message with another host and port.
func withAddress(
	message []byte, hostField, portField protowire.Number, host string, port uint16,
) ([]byte, error) {
	var rewritten []byte
	err := eachField(message, func(number protowire.Number, _ protowire.Type, whole, _ []byte) {
		if number != hostField && number != portField {
			rewritten = append(rewritten, whole...)
		}
	})
	rewritten = protowire.AppendTag(rewritten, hostField, protowire.BytesType)
	rewritten = protowire.AppendString(rewritten, host)
	rewritten = protowire.AppendTag(rewritten, portField, protowire.VarintType)
	return protowire.AppendVarint(rewritten, uint64(port)), err
}

// eachField calls do with each field of a message: the whole field, and the part after its tag.
func eachField(
	message []byte, do func(number protowire.Number, kind protowire.Type, whole, content []byte),
) error {
	for len(message) > 0 {
		number, kind, tagged := protowire.ConsumeTag(message)
		if tagged < 0 {
			return errMalformed
		}
		size := protowire.ConsumeFieldValue(number, kind, message[tagged:])
		if size < 0 {
			return errMalformed
		}
		do(number, kind, message[:tagged+size], message[tagged:tagged+size])
		message = message[tagged+size:]
	}
	return nil
}
