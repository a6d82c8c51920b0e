package keys

import (
	"encoding/binary"
	"math/bits"
	"net/netip"

	"github.com/slackwater/slackwater/go/policy"
)

// Hasher hashes keys: SipHash-1-3 with a seed of 128 bits. The zero value has a seed of zeros; use
// [NewHasher] or [NewSecretHasher], which all of Slackwater use.
type Hasher struct {
	first, second uint64
}

// The public seed: the ASCII codes of "slackwater keys1", each half in little-endian order.
var public = Hasher{
	first:  binary.LittleEndian.Uint64([]byte("slackwat")),
	second: binary.LittleEndian.Uint64([]byte("er keys1")),
}

// NewHasher returns the hasher with the public seed, with which all clients agree without any
// configuration. A client that sends keys of its own making can construct keys that all belong to
// one replica. Where that matters, give all balancers the same secret: see [NewSecretHasher].
func NewHasher() Hasher { return public }

// NewSeededHasher returns a hasher with this seed.
func NewSeededHasher(first, second uint64) Hasher { return Hasher{first: first, second: second} }

// SecretBytesMin is the length of the shortest secret that the options of clients take.
const SecretBytesMin = 16

// NewSecretHasher returns a hasher whose seed derives from a secret of any length. It is as hard to
// guess as the secret: use 16 random bytes or more. In the proxy's configuration it is the seed of
// the key.
func NewSecretHasher(secret []byte) Hasher {
	half := func(part uint64) uint64 {
		return uint64(Hasher{first: public.first ^ part, second: public.second}.Hash(secret))
	}
	return Hasher{first: half(1), second: half(2)}
}

// Hash returns the hash of a key. It takes time in proportion to the length, and does not allocate.
func (h Hasher) Hash(key []byte) policy.KeyHash { return hash(h, key) }

// HashString returns the hash of a key's bytes.
func (h Hasher) HashString(key string) policy.KeyHash { return hash(h, key) }

// valueBytesMax is how many bytes of a request's value count as its key, as in the proxy: a long
// header costs no more than that.
const valueBytesMax = 4096

// Of returns the hash of the value that a request has as its key, as the proxy hashes it: only the
// first 4 KiB count. An empty value is no key: otherwise all requests without a user would share
// one replica.
func (h Hasher) Of(value string) policy.Optional[policy.KeyHash] {
	if value == "" {
		return policy.Optional[policy.KeyHash]{}
	}
	return policy.Some(h.HashString(value[:min(len(value), valueBytesMax)]))
}

func hash[K []byte | string](h Hasher, key K) policy.KeyHash {
	state := newState(h)
	at := 0
	for ; at+8 <= len(key); at += 8 {
		state.take(word(key[at : at+8]))
	}
	// The last byte is the length, modulo 256.
	state.take(word(key[at:]) | uint64(len(key))<<56)
	return policy.KeyHash(state.finish())
}

// word returns up to eight bytes as a number, in little-endian order.
func word[K []byte | string](from K) uint64 {
	number := uint64(0)
	for at := range len(from) {
		number |= uint64(from[at]) << (8 * at)
	}
	return number
}

// NewIdentity returns the identity of a part of the server with this name, hashed with the public
// seed. Clients agree on a server if they name it in the same way: see [IdentityOf].
func NewIdentity(name string, part uint32) policy.Identity {
	return policy.Identity{Name: uint64(public.HashString(name)), Part: part}
}

// IdentityOf returns the identity of a part of the server with this address, as the proxy makes it:
// an IP address with a port is written in one way, such as "10.0.0.1:80" or "[2001:db8::1]:80". Any
// other text is the name as it is.
func IdentityOf(address string, part uint32) policy.Identity {
	if parsed, err := netip.ParseAddrPort(address); err == nil {
		address = parsed.String()
	}
	return NewIdentity(address, part)
}

// sipState is the state of SipHash.
type sipState [4]uint64

func newState(h Hasher) sipState {
	return sipState{
		h.first ^ 0x736f6d6570736575,
		h.second ^ 0x646f72616e646f6d,
		h.first ^ 0x6c7967656e657261,
		h.second ^ 0x7465646279746573,
	}
}

func (s *sipState) round() {
	a, b, c, d := s[0], s[1], s[2], s[3]
	a, c = a+b, c+d
	b, d = bits.RotateLeft64(b, 13)^a, bits.RotateLeft64(d, 16)^c
	a = bits.RotateLeft64(a, 32)
	c, a = c+b, a+d
	b, d = bits.RotateLeft64(b, 17)^c, bits.RotateLeft64(d, 21)^a
	*s = sipState{a, b, bits.RotateLeft64(c, 32), d}
}

func (s *sipState) take(word uint64) {
	s[3] ^= word
	s.round()
	s[0] ^= word
}

func (s *sipState) finish() uint64 {
	s[2] ^= 0xff
	s.round()
	s.round()
	s.round()
	return s[0] ^ s[1] ^ s[2] ^ s[3]
}

// mix returns a number whose bits all depend on all bits of the given one.
func mix(number uint64) uint64 { return policy.NewSplitMix64(number).Draw() }
