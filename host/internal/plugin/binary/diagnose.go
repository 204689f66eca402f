package binary

import (
	"bufio"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// machines maps GOARCH to the ELF machine that runs natively.
var machines = map[string]elf.Machine{
	"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "386": elf.EM_386, "arm": elf.EM_ARM,
	"riscv64": elf.EM_RISCV, "ppc64le": elf.EM_PPC64, "s390x": elf.EM_S390, "loong64": elf.EM_LOONGARCH,
}

// Diagnose explains why the file at path can't be executed. It returns "" if it finds no reason.
func Diagnose(path string) string {
	f, err := openFile(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	var head [4]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return "the file is too short to be a program"
	}
	switch {
	case head[0] == '#' && head[1] == '!':
		return diagnoseScript(f)
	case string(head[:]) == elf.ELFMAG:
		return diagnoseELF(f)
	case head[0] == 'M' && head[1] == 'Z':
		return "the file is a Windows program"
	case head == [4]byte{0xcf, 0xfa, 0xed, 0xfe}, head == [4]byte{0xca, 0xfe, 0xba, 0xbe}:
		return "the file is a macOS program"
	}
	return "the file is neither a program nor a script with a #! line"
}

// maxInterpreterLine is how much of a script's first line the kernel reads.
const maxInterpreterLine = 256

func diagnoseScript(f *os.File) string {
	if _, err := f.Seek(2, io.SeekStart); err != nil {
		return ""
	}
	line, _ := bufio.NewReaderSize(io.LimitReader(f, maxInterpreterLine), maxInterpreterLine).ReadString('\n')
	if strings.HasSuffix(line, "\r\n") {
		return "the script's first line ends with a carriage return, which becomes part of the interpreter's name"
	}
	words := strings.Fields(line)
	if len(words) == 0 {
		return "the script's #! line names no interpreter"
	}
	if _, err := os.Stat(words[0]); err != nil {
		return fmt.Sprintf("the script's interpreter %s is missing", words[0])
	}
	return ""
}

func diagnoseELF(f *os.File) string {
	e, err := elf.NewFile(f)
	if err != nil {
		return "the file is a damaged ELF program: " + err.Error()
	}
	defer e.Close()
	if want, ok := machines[runtime.GOARCH]; ok && e.Machine != want {
		return fmt.Sprintf("the program is built for %s, but this machine is %s", strings.TrimPrefix(e.Machine.String(), "EM_"), runtime.GOARCH)
	}
	for _, p := range e.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		b := make([]byte, min(p.Filesz, 4096))
		if _, err := p.ReadAt(b, 0); err != nil {
			return ""
		}
		loader := strings.TrimRight(string(b), "\x00")
		if _, err := os.Stat(loader); err != nil {
			return fmt.Sprintf("the program's dynamic loader %s is missing; build it with CGO_ENABLED=0", loader)
		}
	}
	return ""
}
