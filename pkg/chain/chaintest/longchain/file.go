package longchain

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/zsidecar/zsidecar/pkg/chain"
)

// generatorVersion changes whenever any block of any chain does, or the file's format.
const generatorVersion = 1

const (
	magic      = "ZSLCHAIN"
	headSize   = 56
	pageBlocks = 1024
	recordSize = 32 + 3*4
	sumSize    = 4
	runHead    = 4 + 4
	entrySize  = 8
)

// What a run is of.
const (
	blockRun       = 1
	transactionRun = 2
)

// head is the file's first part.
type head struct {
	options Options
	stats   Stats
	runs    uint32
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// seal appends the checksum of what was appended since start.
func seal(dst []byte, start int) []byte {
	return binary.LittleEndian.AppendUint32(dst, checksum(dst[start:]))
}

func (h *head) encode() []byte {
	b := binary.LittleEndian.AppendUint32([]byte(magic), generatorVersion)
	b = append(b, byte(h.options.Kind), 0, 0, 0)
	if h.options.WithoutNU7 {
		b[13] = 1
	}
	b = binary.LittleEndian.AppendUint64(b, h.options.Seed)
	b = binary.LittleEndian.AppendUint32(b, uint32(h.options.Blocks))
	b = binary.LittleEndian.AppendUint32(b, uint32(h.stats.Dense))
	b = binary.LittleEndian.AppendUint64(b, h.stats.Bytes)
	b = binary.LittleEndian.AppendUint64(b, h.stats.Transactions)
	return seal(binary.LittleEndian.AppendUint32(b, h.runs), 0)
}

// decode reads the head of the file of the chain that o describes.
func (h *head) decode(b []byte, o Options) error {
	if string(b[:8]) != magic {
		return errors.New("it is no file of a chain")
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != generatorVersion {
		return fmt.Errorf("it was made by version %d of the generator, not %d", v, generatorVersion)
	}
	if _, err := unseal(b); err != nil {
		return fmt.Errorf("its head: %w", err)
	}
	*h = head{
		options: Options{
			Kind: Kind(b[12]), WithoutNU7: b[13] == 1,
			Seed: binary.LittleEndian.Uint64(b[16:]), Blocks: int(binary.LittleEndian.Uint32(b[24:])),
		},
		stats: Stats{
			Dense: int(binary.LittleEndian.Uint32(b[28:])), Bytes: binary.LittleEndian.Uint64(b[32:]),
			Transactions: binary.LittleEndian.Uint64(b[40:]),
		},
		runs: binary.LittleEndian.Uint32(b[48:]),
	}
	if h.options.fileName() != o.fileName() {
		return fmt.Errorf("it is of %s", h.options.fileName())
	}
	return nil
}

var errChecksum = errors.New("the checksum is wrong")

// unseal returns what stands before the checksum at the end of b.
func unseal(b []byte) ([]byte, error) {
	body := b[:len(b)-sumSize]
	if binary.LittleEndian.Uint32(b[len(body):]) != checksum(body) {
		return nil, errChecksum
	}
	return body, nil
}

// offsetOf returns where the record of height h begins.
func offsetOf(h chain.Height) int64 {
	return headSize + int64(h)*recordSize + int64(h/pageBlocks)*sumSize
}

// endOfPages is where the runs begin.
func endOfPages(blocks int) int64 { return offsetOf(chain.Height(blocks-1)) + recordSize + sumSize }

// read verifies every byte of the chain's file. The error says what is wrong with it.
func (c *Chain) read(o Options) error {
	in := bufio.NewReaderSize(io.NewSectionReader(c.file, 0, 1<<62), 1<<20)
	b := make([]byte, headSize, pageBlocks*recordSize+sumSize)
	var h head
	if _, err := io.ReadFull(in, b); err != nil {
		return fmt.Errorf("its head: %w", err)
	}
	if err := h.decode(b, o); err != nil {
		return err
	}
	c.stats = h.stats
	for first := 0; first < o.Blocks; first += pageBlocks {
		b = b[:min(pageBlocks, o.Blocks-first)*recordSize+sumSize]
		_, err := io.ReadFull(in, b)
		if err == nil {
			b, err = unseal(b)
		}
		if err != nil {
			return fmt.Errorf("the page of blocks %d on: %w", first, err)
		}
	}
	at := endOfPages(o.Blocks)
	for i := range h.runs {
		r, err := readRun(in, at)
		if err != nil {
			return fmt.Errorf("run %d: %w", i, err)
		}
		c.addRun(r)
		at = r.end()
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("it goes on after its %d bytes: %w", at, err)
	}
	return nil
}

// readRun verifies a run that begins at the given offset.
func readRun(in io.Reader, at int64) (run, error) {
	b := make([]byte, runHead)
	if _, err := io.ReadFull(in, b); err != nil {
		return run{}, err
	}
	r := run{what: binary.LittleEndian.Uint32(b), at: at + runHead, count: int(binary.LittleEndian.Uint32(b[4:]))}
	if r.count > runEntries || r.what != blockRun && r.what != transactionRun {
		return run{}, fmt.Errorf("it claims %d entries of what is called %d", r.count, r.what)
	}
	b = append(b, make([]byte, r.count*entrySize+sumSize)...)
	if _, err := io.ReadFull(in, b[runHead:]); err != nil {
		return run{}, err
	}
	_, err := unseal(b)
	return r, err
}

// writer makes the file of a chain.
type writer struct {
	file *os.File
	out  *bufio.Writer // the pages, then the runs
	link linker
	head head
	buf  []byte

	blocks, transactions []uint64 // entries that wait for their run
	runs                 *os.File // the runs, which are copied behind the pages at the end
}

func (w *writer) page(p *page) (err error) {
	w.buf, w.blocks, err = w.link.append(w.buf[:0], w.blocks, p)
	if err != nil {
		return err
	}
	if _, err := w.out.Write(seal(w.buf, 0)); err != nil {
		return err
	}
	w.transactions = append(w.transactions, p.ids...)
	s := &w.head.stats
	s.Dense, s.Bytes, s.Transactions = s.Dense+int(p.dense), s.Bytes+p.bytes, s.Transactions+uint64(len(p.ids))
	if w.blocks, err = w.flush(blockRun, w.blocks, runEntries); err != nil {
		return err
	}
	w.transactions, err = w.flush(transactionRun, w.transactions, runEntries)
	if w.head.options.Progress != nil {
		w.head.options.Progress(int(p.first)+len(p.added), w.head.options.Blocks)
	}
	return err
}

// flush writes full runs of entries, or whatever there is when least is 1, and returns the entries that are left.
func (w *writer) flush(what uint32, entries []uint64, least int) ([]uint64, error) {
	for len(entries) >= least {
		n := min(len(entries), runEntries)
		if _, err := w.runs.Write(encodeRun(what, entries[:n])); err != nil {
			return entries, err
		}
		w.head.runs++
		entries = entries[:copy(entries, entries[n:])]
	}
	return entries, nil
}

// finish completes the file after the last page.
func (w *writer) finish() error {
	var err error
	if w.blocks, err = w.flush(blockRun, w.blocks, 1); err != nil {
		return err
	}
	if w.transactions, err = w.flush(transactionRun, w.transactions, 1); err != nil {
		return err
	}
	if _, err := w.runs.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(w.out, w.runs); err != nil {
		return err
	}
	if err := w.out.Flush(); err != nil {
		return err
	}
	_, err = w.file.WriteAt(w.head.encode(), 0)
	return err
}
