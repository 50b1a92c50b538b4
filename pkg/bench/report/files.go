package report

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/zsidecar/zsidecar/pkg/bench"
)

// Files names the files that a run leaves; an empty name is none. SVG is a folder, which is made when it is missing.
type Files struct{ JSON, CSV, Markdown, SVG, HTML string }

// output is one of the files: the flag that names it, and who fills it.
type output struct {
	flag, path string
	write      func(io.Writer, *bench.Result) error
}

func (f Files) outputs() (named []output) {
	for _, o := range []output{
		{"json", f.JSON, WriteJSON}, {"csv", f.CSV, WriteCSV}, {"markdown", f.Markdown, WriteMarkdown}, {"html", f.HTML, WriteHTML},
	} {
		if o.path != "" {
			named = append(named, o)
		}
	}
	return named
}

// Check finds what would keep Write from writing, before a long run: a folder that is missing or not writable, a folder in the place of a
// file, a file that is named twice, one of those that are kept since the result comes from there. It leaves nothing behind but the folder for SVG.
func (f Files) Check(kept ...string) error {
	var wrong []error
	taken := map[string]string{}
	read := map[string]bool{}
	for _, path := range kept {
		read[target(path)] = true
	}
	for _, o := range f.outputs() {
		if err := tryFile(o.path); err != nil {
			wrong = append(wrong, fmt.Errorf("--%s: %w", o.flag, err))
			continue
		}
		real := target(o.path)
		if read[real] && regular(real) {
			wrong = append(wrong, fmt.Errorf("--%s: %s is the result that is drawn: name another file", o.flag, o.path))
		}
		if other := taken[real]; other != "" && regular(real) {
			wrong = append(wrong, fmt.Errorf("--%s and --%s name the same file %s", other, o.flag, o.path))
		}
		taken[real] = o.flag
	}
	if f.SVG != "" {
		if other := taken[target(f.SVG)]; other != "" {
			wrong = append(wrong, fmt.Errorf("--%s and --svg name the same path %s: one is a file, the other a folder", other, f.SVG))
		} else if err := tryDir(f.SVG); err != nil {
			wrong = append(wrong, fmt.Errorf("--svg: %w", err))
		}
	}
	return errors.Join(wrong...)
}

// Write writes all files. Each is complete or as it was before: it is written beside its place and then moved there, but for what is no
// regular file (a pipe, a terminal). A file that fails keeps no other from being written.
func (f Files) Write(r *bench.Result) error {
	var failed []error
	for _, o := range f.outputs() {
		var b bytes.Buffer
		err := o.write(&b, r)
		if err == nil {
			err = replace(o.path, b.Bytes())
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("--%s %s: %w", o.flag, o.path, err))
		}
	}
	if f.SVG != "" {
		if _, err := WriteSVG(f.SVG, r); err != nil {
			failed = append(failed, fmt.Errorf("--svg: %w", err))
		}
	}
	return errors.Join(failed...)
}

// target follows links, so that the file is replaced and not the link, and two ways to one file are one.
func target(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	dir, name := filepath.Split(path)
	if real, err := filepath.EvalSymlinks(cmp.Or(dir, ".")); err == nil {
		return filepath.Join(real, name)
	}
	return path
}

// regular tells whether a file can be moved into this place: there is one already, or nothing.
func regular(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode().IsRegular()
}

func tryFile(path string) error {
	path = target(path)
	if info, err := os.Stat(path); err == nil {
		switch {
		case info.IsDir():
			return fmt.Errorf("%s is a folder: name a file", path)
		case !info.Mode().IsRegular():
			return nil // opening a pipe could wait for its reader
		}
	}
	return tryDirOf(path)
}

// tryDirOf writes and removes a file beside path.
func tryDirOf(path string) error {
	f, err := beside(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func tryDir(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	return tryDirOf(filepath.Join(dir, "plot"))
}

// beside makes an empty file in the folder of path. Unlike those of os.CreateTemp it has the permissions that a new file has.
func beside(path string) (*os.File, error) {
	dir, name := filepath.Split(path)
	if strings.TrimSpace(name) == "" {
		return nil, fmt.Errorf("%q names no file", path)
	}
	for i := 0; ; i++ {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf(".%s.%d-%d", name, os.Getpid(), i)), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		var failed *fs.PathError
		switch {
		case errors.Is(err, fs.ErrExist):
			continue
		case errors.As(err, &failed): // whoever named path knows nothing of the file beside it
			return nil, &fs.PathError{Op: "create", Path: path, Err: failed.Err}
		}
		return f, err
	}
}

// replace puts data into the place of path.
func replace(path string, data []byte) (err error) {
	path = target(path)
	if !regular(path) {
		return os.WriteFile(path, data, 0o666)
	}
	f, err := beside(path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
