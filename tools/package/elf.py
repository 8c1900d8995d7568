"""What release folders need to know and to change of an ELF file (64-bit, little-endian), in place: no byte moves."""
import struct

NEEDED, RPATH, RUNPATH, STRTAB, VERNEED, VERNEEDNUM = 1, 15, 29, 5, 0x6FFFFFFE, 0x6FFFFFFF
PT_LOAD, PT_DYNAMIC, SHT_DYNSYM, SHT_VERSYM = 1, 2, 11, 0x6FFFFFFF
WEAK = 2


def is_elf(path):
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def version_hash(name):
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        value = (value & 0x0FFFFFFF) ^ ((value & 0xF0000000) >> 24)
    return value


class Elf:
    def __init__(self, path):
        self.path = path
        self.data = bytearray(path.read_bytes())
        self.loads, self.dynamic_at = [], None
        table, size, count = self._at("<Q", 32), self._at("<H", 54), self._at("<H", 56)
        for header in range(table, table + size * count, size):
            kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", self.data, header)
            if kind == PT_LOAD:
                self.loads.append((address, length, offset))
            elif kind == PT_DYNAMIC:
                self.dynamic_at, self.dynamic_size = offset, length
        self.strings = self._offset(self._value(STRTAB))
        self._read_symbols()

    def _at(self, form, offset):
        return struct.unpack_from(form, self.data, offset)[0]

    def _offset(self, address):
        return next(address - start + offset for start, length, offset in self.loads if start <= address < start + length)

    def _text(self, offset):
        begin = self.strings + offset
        return self.data[begin:self.data.index(0, begin)].decode()

    def _dynamic(self):
        """(offset in the file, tag, value) of each entry."""
        for at in range(self.dynamic_at, self.dynamic_at + self.dynamic_size, 16):
            tag, value = struct.unpack_from("<QQ", self.data, at)
            if tag == 0:
                return
            yield at, tag, value

    def _value(self, wanted):
        return next((value for _, tag, value in self._dynamic() if tag == wanted), None)

    def _read_symbols(self):
        """[offset of the entry, name, offset of its version number], the undefined ones."""
        table, size, count = self._at("<Q", 40), self._at("<H", 58), self._at("<H", 60)
        sections = {self._at("<I", at + 4): struct.unpack_from("<QQ", self.data, at + 24)
                    for at in range(table, table + size * count, size)}
        symbols, length = sections[SHT_DYNSYM]
        versions = sections.get(SHT_VERSYM, (None, 0))[0]
        self.undefined, self.name_offsets = [], set()
        for index in range(1, length // 24):
            at = symbols + 24 * index
            name, section = self._at("<I", at), self._at("<H", at + 6)
            self.name_offsets.add(name)
            if section == 0 and versions is not None:
                self.undefined.append((at, self._text(name), versions + 2 * index))

    def needed(self):
        return [self._text(value) for _, tag, value in self._dynamic() if tag == NEEDED]

    def search_path(self):
        value = self._value(RUNPATH) or self._value(RPATH)
        return None if value is None else self._text(value)

    def _requirements(self):
        """(offset of the library's entry, library, offset of the version's entry, version, number) of each."""
        address = self._value(VERNEED)
        at = None if address is None else self._offset(address)
        for _ in range(self._value(VERNEEDNUM) or 0):
            _, count, library, aux, following = struct.unpack_from("<HHIII", self.data, at)
            entry = at + aux
            for _ in range(count):
                _, _, number, name, after = struct.unpack_from("<IHHII", self.data, entry)
                yield at, self._text(library), entry, self._text(name), number
                entry += after
            at += following

    def versions(self):
        return {version for *_, version, _ in self._requirements()}

    def symbols_of(self, number):
        return [(at, name) for at, name, version in self.undefined if self._at("<H", version) & 0x7FFF == number]

    def _string_of(self, version):
        return next(self._at("<I", entry + 8) for _, _, entry, name, _ in self._requirements() if name == version)

    def _rename(self, entry, version):
        struct.pack_into("<I", self.data, entry, version_hash(version))
        struct.pack_into("<I", self.data, entry + 8, self._string_of(version))

    def bind_to_older(self, version, older, symbols):
        """Takes the `older` version of symbols that the library has in both; others of `version` are refused."""
        for _, _, entry, name, number in list(self._requirements()):
            if name != version:
                continue
            others = {symbol for _, symbol in self.symbols_of(number)} - set(symbols)
            if others:
                raise ValueError(f"{self.path}: {', '.join(sorted(others))} of {version} have no older version")
            self._rename(entry, older)

    def leave_out(self, libraries):
        """Removes libraries whose functions are never called: these become weak, so that the loader leaves them null."""
        if not libraries.intersection(self.needed()):
            return
        libc = next(self._at("<I", at + 4) for at, library, *_ in self._requirements() if library == "libc.so.6")
        for at, library, entry, _, number in list(self._requirements()):
            if library not in libraries:
                continue
            for symbol, _ in self.symbols_of(number):
                self.data[symbol + 4] = WEAK << 4 | self.data[symbol + 4] & 15
            self._rename(entry, "GLIBC_2.2.5")
            struct.pack_into("<I", self.data, at + 4, libc)
        kept = [(tag, value) for _, tag, value in self._dynamic() if tag != NEEDED or self._text(value) not in libraries]
        struct.pack_into(f"<{self.dynamic_size // 8}Q", self.data, self.dynamic_at,
                         *(number for entry in kept for number in entry), *[0] * (self.dynamic_size // 8 - 2 * len(kept)))

    def set_search_path(self, path):
        """As DT_RPATH, which holds for the libraries of libraries too and comes before LD_LIBRARY_PATH."""
        at, offset = next((at, value) for at, tag, value in self._dynamic() if tag in (RUNPATH, RPATH))
        old = len(self._text(offset))
        if len(path) > old or any(offset < name <= offset + old for name in self.name_offsets):
            raise ValueError(f"{self.path}: no room for the search path {path}")
        begin = self.strings + offset
        self.data[begin:begin + old] = path.encode().ljust(old, b"\0")
        struct.pack_into("<Q", self.data, at, RPATH)

    def save(self):
        self.path.write_bytes(self.data)
