"""Tokens a second that one core reads, shuffled, from a token file in the page cache: Echelon's loader and torch's
DataLoader over numpy.memmap of the same file, both on the calling thread alone (no workers), in turn. Echelon also
verifies the checksum of each block that it takes tokens from, and each id.

What torch's DataLoader gives for `documents` are plain windows, which it cannot tell apart; for `pad` every document is
padded to the longest of its batch, and only real tokens count."""
import argparse
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy
import torch


class Windows(torch.utils.data.Dataset):
    def __init__(self, ids, length):
        self.ids, self.length = ids, length

    def __len__(self):
        return (len(self.ids) - 1) // self.length

    def __getitem__(self, index):
        begin = index * self.length
        window = torch.from_numpy(self.ids[begin:begin + self.length + 1].astype(numpy.int64))
        return window[:-1], window[1:]


class Documents(torch.utils.data.Dataset):
    def __init__(self, ids, ends, length):
        self.ids, self.ends, self.length = ids, ends, length

    def __len__(self):
        return len(self.ends)

    def __getitem__(self, index):
        begin = int(self.ends[index - 1]) if index else 0
        end = min(int(self.ends[index]), begin + self.length + 1)
        window = torch.from_numpy(self.ids[begin:end].astype(numpy.int64))
        return window[:-1], window[1:]


def padded(samples):
    inputs, targets = zip(*samples)
    pad = torch.nn.utils.rnn.pad_sequence
    return pad(inputs, batch_first=True), pad(targets, batch_first=True, padding_value=-100)


def theirs(path, packing, length, rows, batches):
    header = numpy.fromfile(path, "<u8", 16)
    ids = numpy.memmap(path, "<u2", "r", 128, (int(header[3]),))
    ends = numpy.memmap(path, "<u8", "r", int(header[9]), (int(header[4]),))
    data = Documents(ids, ends, length) if packing == "pad" else Windows(ids, length)
    order = torch.utils.data.RandomSampler(data, generator=torch.Generator().manual_seed(3))
    loader = iter(torch.utils.data.DataLoader(data, batch_size=rows, sampler=order,
                                              collate_fn=padded if packing == "pad" else None))
    count = 0
    begin = time.perf_counter()
    for _ in range(batches):
        inputs, targets = next(loader)
        count += int((targets >= 0).sum()) if packing == "pad" else inputs.numel()
    return count / (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--tokens", type=int, default=50_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows, read = 4, 30_000_000
    print("| packing | seq_len | loader, tokens/s of a core | DataLoader | loader / DataLoader |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.tok"
        subprocess.run([arguments.ours, "write", path, str(arguments.tokens), "50000"], check=True)
        for packing in ("stream", "documents", "pad"):
            for length in (512, 2048):
                rates, others, batches = [], [], read // (rows * length)
                for _ in range(arguments.repeat):
                    command = [arguments.ours, "read", path, packing, str(length), str(rows), str(batches)]
                    tokens, seconds = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.split()
                    rates.append(int(tokens) / float(seconds))
                    others.append(theirs(path, packing, length, rows, batches))
                ratios = [a / b for a, b in zip(rates, others)]
                print(f"| {packing} | {length} | {statistics.median(rates) / 1e6:.0f} M | "
                      f"{statistics.median(others) / 1e6:.1f} M | {statistics.median(ratios):.1f} "
                      f"({min(ratios):.1f} to {max(ratios):.1f}) |", flush=True)


if __name__ == "__main__":
    main()
