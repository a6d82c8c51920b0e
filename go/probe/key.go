package probe

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"
	"sync"
)

const (
	// KeyBytesMin is the length of the shortest key.
	KeyBytesMin = 16
	// KeyBytesMax is the length of the longest key: the block size of SHA-256.
	KeyBytesMax = 64

	// A tag is the first half of HMAC-SHA256, the shortest that RFC 2104 recommends.
	tagBytes = 16
)

// ErrKeyNotHex says that the text of a key is not an even number of hexadecimal digits.
var ErrKeyNotHex = errors.New("the probe key is not an even number of hexadecimal digits; " +
	"make one with `openssl rand -hex 32`")

// Key is a secret that clients and replicas share. It signs probes and reports. A nil *Key means
// that nothing is signed. A Key is safe for concurrent use, and no format verb prints the secret.
type Key struct {
	primary macs
	// A second key whose tags are accepted while keys are changed.
	also *macs
}

// NewKey returns the key with this secret, of [KeyBytesMin] to [KeyBytesMax] bytes that cannot be
// guessed.
func NewKey(secret []byte) (*Key, error) {
	if len(secret) < KeyBytesMin || len(secret) > KeyBytesMax {
		return nil, fmt.Errorf("the probe key has %d bytes, not %d to %d",
			len(secret), KeyBytesMin, KeyBytesMax)
	}
	return &Key{primary: newMACs(secret)}, nil
}

// ParseKey returns the key with this text: 32 to 128 hexadecimal digits. White space around them
// is ignored, so the content of a file can be passed as it is.
func ParseKey(text string) (*Key, error) {
	text = strings.Trim(text, " \t\r\n\f")
	if len(text) > 2*KeyBytesMax {
		return nil, fmt.Errorf("the probe key has %d bytes, not %d to %d",
			(len(text)+1)/2, KeyBytesMin, KeyBytesMax)
	}
	secret, err := hex.DecodeString(text)
	if err != nil {
		return nil, ErrKeyNotHex // the error of hex would quote a part of the key
	}
	return NewKey(secret)
}

// Accepting returns a key that signs as k does and also accepts what other has signed. Use it to
// change keys without an interruption: give all sides the new key as the second one, then make it
// the first everywhere, then remove the old one. A second key of other is not accepted.
func (k *Key) Accepting(other *Key) *Key {
	return &Key{primary: k.primary, also: &other.primary}
}

// String returns a text without the secret.
func (k *Key) String() string { return "probe.Key(..)" }

// GoString returns a text without the secret.
func (k *Key) GoString() string { return k.String() }

// Format writes a text without the secret for every verb.
func (k *Key) Format(state fmt.State, _ rune) { _, _ = state.Write([]byte(k.String())) }

func (k *Key) sign(message []byte) [tagBytes]byte { return k.primary.tag(message) }

// accepts takes as long for a wrong tag as for a right one.
func (k *Key) accepts(message, tag []byte) bool {
	primary := k.primary.tag(message)
	ok := hmac.Equal(primary[:], tag)
	if k.also != nil {
		also := k.also.tag(message)
		ok = hmac.Equal(also[:], tag) || ok
	}
	return ok
}

// macs holds HMAC states that have absorbed the key, because hashing the key again for every
// datagram would cost as much as hashing the datagram.
type macs struct{ pool *sync.Pool }

type mac struct {
	hash hash.Hash
	// The message and its hash pass through an interface and would make the caller's escape.
	message bytes.Buffer
	sum     [sha256.Size]byte
}

func newMACs(secret []byte) macs {
	secret = bytes.Clone(secret)
	return macs{pool: &sync.Pool{New: func() any {
		return &mac{hash: hmac.New(sha256.New, secret)}
	}}}
}

func (m macs) tag(message []byte) [tagBytes]byte {
	state, ok := m.pool.Get().(*mac)
	if !ok {
		return [tagBytes]byte{} // the pool holds nothing else
	}
	defer m.pool.Put(state)
	state.message.Reset()
	state.message.Write(message)
	state.hash.Reset()
	state.hash.Write(state.message.Bytes())
	return [tagBytes]byte(state.hash.Sum(state.sum[:0]))
}
