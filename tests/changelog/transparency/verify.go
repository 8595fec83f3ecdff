// Verifies a log as somebody else would: notes with golang.org/x/mod/sumdb/note, proofs with sumdb/tlog.
//
// From standard input one JSON object; a line for each thing that was found right, and an exit status that is not 0
// at the first that is not. Run by tests/changelog/transparency/test_go_verifier.py.
package main

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

type told struct {
	Notes      []string // the older checkpoint, then the newer
	Key        string   // of their signatures
	Cosigner   string   // whose cosignatures have a time; sumdb/note takes the lines apart
	Public     []byte
	Id         uint32
	Record     []byte // of which inclusion is proven in the newer checkpoint
	Index      int64
	Inclusion  [][]byte
	Consistent [][]byte
	Secret     string // of a key that signs here, for the other side to verify
}

type cosigner struct{ told }

func (by cosigner) Name() string    { return by.Cosigner }
func (by cosigner) KeyHash() uint32 { return by.Id }
func (by cosigner) Verify(text, signature []byte) bool {
	if len(signature) != 8+ed25519.SignatureSize {
		return false
	}
	head := fmt.Sprintf("cosignature/v1\ntime %d\n", binary.BigEndian.Uint64(signature))
	return ed25519.Verify(by.Public, append([]byte(head), text...), signature[8:])
}

func hashes(of [][]byte) (found []tlog.Hash) {
	for _, one := range of {
		var hash tlog.Hash
		copy(hash[:], one)
		found = append(found, hash)
	}
	return found
}

func checked(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	var log_ told
	checked(json.NewDecoder(os.Stdin).Decode(&log_))
	verifier, err := note.NewVerifier(log_.Key)
	checked(err)
	known := note.VerifierList(verifier, cosigner{log_})
	sizes, roots := []int64{}, []tlog.Hash{}
	for _, text := range log_.Notes {
		opened, err := note.Open([]byte(text), known)
		checked(err)
		var size int64
		lines := strings.Split(opened.Text, "\n")
		_, err = fmt.Sscan(lines[1], &size)
		checked(err)
		root, err := base64.StdEncoding.DecodeString(lines[2])
		checked(err)
		sizes, roots = append(sizes, size), append(roots, hashes([][]byte{root})[0])
		fmt.Println("note", lines[0], size, len(opened.Sigs))
	}
	leaf := tlog.RecordHash(log_.Record)
	checked(tlog.CheckRecord(hashes(log_.Inclusion), sizes[1], roots[1], log_.Index, leaf))
	fmt.Println("inclusion", log_.Index)
	checked(tlog.CheckTree(hashes(log_.Consistent), sizes[1], roots[1], sizes[0], roots[0]))
	fmt.Println("consistency", sizes[0], sizes[1])
	signer, err := note.NewSigner(log_.Secret)
	checked(err)
	signed, err := note.Sign(&note.Note{Text: "signed elsewhere\n"}, signer)
	checked(err)
	fmt.Print(string(signed))
}
