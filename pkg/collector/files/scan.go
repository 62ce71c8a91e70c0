package files

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/internal/logfile"
)

// scan finds the family's files and opens those that have something to read.
func (f *family) scan() {
	f.undecided, f.barred = false, map[string]error{}
	f.doubted, f.doubtedBefore = map[string]time.Time{}, f.doubted
	defer func() { f.allBarred.set(f.path, f.barred) }()
	files := f.find()
	names := map[inode]found{}
	for _, file := range files {
		names[inodeOf(file.info)] = file
	}

	for _, log := range f.logs {
		file, there := names[log.inode]
		log.gone = !there
		if there {
			log.path, log.suffix, log.at = file.path, file.suffix, file.info.ModTime()
		}
		delete(names, log.inode)
	}

	// Files whose log is known come first, so that a copy is compared with a log that already has its file.
	slices.SortStableFunc(files, func(a, b found) int { return f.certainty(b) - f.certainty(a) })
	for _, file := range files {
		if _, unopened := names[inodeOf(file.info)]; unopened {
			f.look(file)
		}
	}

	f.reportBroken(files)
	f.showRead(files)
	maps.DeleteFunc(f.warned, func(path string, _ bool) bool {
		return !slices.ContainsFunc(files, func(file found) bool { return file.path == path })
	})

	f.began.skip = false
	f.sort()
}

// certainty orders files by how surely they can be assigned to a log: first the files that were read before, then
// those that are not compressed. During compression both the original and the compressed file exist.
func (f *family) certainty(file found) int {
	switch {
	case f.known.hasFile(inodeOf(file.info)):
		return 2
	case !logfile.NamedAsPacked(file.path):
		return 1
	}
	return 0
}

// sort puts logs whose file has no name any more first: they were rotated away last, or are being deleted.
func (f *family) sort() {
	oldestFirst(f.logs, func(log *fileLog) aged {
		if log.gone && log.suffix == "" {
			return aged{".0", log.at}
		}
		return aged{log.suffix, log.at}
	})
}

// find lists the family's files.
func (f *family) find() (files []found) {
	real := f.path
	if path, err := filepath.EvalSymlinks(f.path); err == nil {
		real = path
	}

	f.real.Store(&real)
	switch info, err := os.Stat(f.path); {
	case err == nil && info.Mode().IsRegular():
		files = append(files, found{path: f.path, info: info})
	case err == nil:
		f.bar(f.path, noFile(f.path, info))
	case !errors.Is(err, os.ErrNotExist):
		f.bar(f.path, err)
	}

	for _, live := range []string{f.path, real} {
		files = append(files, f.rotated(live)...)
		if live == real {
			break
		}
	}

	return files
}

// Folders are read in pieces, and few at a time: a folder of ten thousand logs is read once for each of them.
const folderPiece = 256

var folders = make(chan struct{}, 2)

// rotated lists the files that a live file was rotated to.
func (f *family) rotated(live string) (files []found) {
	folders <- struct{}{}
	defer func() { <-folders }()
	folder, err := os.Open(filepath.Dir(live))
	if err == nil {
		defer folder.Close()
	}

	for err == nil {
		var entries []os.DirEntry
		entries, err = folder.ReadDir(folderPiece)
		for _, entry := range entries {
			suffix, ok := rotationOf(filepath.Base(live), entry.Name())
			if !ok || !entry.Type().IsRegular() {
				continue
			}
			if info, err := entry.Info(); err == nil {
				files = append(files, found{path: filepath.Join(filepath.Dir(live), entry.Name()), suffix: suffix, info: info})
			}
		}
	}

	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case !errors.Is(err, io.EOF):
		f.bar(filepath.Dir(live), fmt.Errorf("looking for the rotated files of %s: %w", live, err))
		return nil
	}
	slices.SortFunc(files, func(a, b found) int { return strings.Compare(a.path, b.path) })
	return files
}

// noFile describes a path that is not a regular file, and the setting to use instead.
func noFile(path string, info os.FileInfo) error {
	switch info.Mode().Type() {
	case os.ModeDir:
		return fmt.Errorf("%s is a directory: name the files in it, as %s", path, filepath.Join(path, "*.log"))
	case os.ModeNamedPipe:
		return fmt.Errorf("%s is a named pipe, which cannot be read again: give it a source of its own, and restart the collector if it was made after the start", path)
	}
	return fmt.Errorf("%s is no regular file", path)
}
