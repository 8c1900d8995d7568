"""Saves, loads and reshards 2.1 GB of training state (179 M parameters, fp32, with the two states of AdamW) on two ranks,
beside a memory copy and the raw disk in the same round, and beside torch.distributed.checkpoint (DCP) in the same run.

  checkpoint.py --ours PROGRAM [--folder FOLDER] [--runs 3]
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def lines(*command):
    """The JSON lines that a program prints."""
    ran = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]


class Results:
    def __init__(self):
        self.seconds, self.extra, self.count = {}, {}, {}

    def add(self, what, seconds, extra=0, count=0):
        self.seconds.setdefault(what, []).append(seconds)
        self.extra.setdefault(what, []).append(extra)
        self.count[what] = count

    def row(self, what):
        return statistics.median(self.seconds[what]), max(self.extra[what])

    def ratio(self, one, other):
        """Median of one / other, round by round."""
        return statistics.median(a / b for a, b in zip(self.seconds[one], self.seconds[other]))


def run(args, folder):
    ours, theirs = Results(), Results()
    for _ in range(args.runs):
        shutil.rmtree(folder / "ours", ignore_errors=True)
        for line in lines(args.ours, folder / "ours", 2, 4, 2):
            ours.add(line["what"], line["seconds"], line["extra_bytes"], line["count"])
        shutil.rmtree(folder / "ours")
        for line in lines(sys.executable, HERE / "checkpoint_dcp.py", folder / "dcp", "--repeat", 2):
            for seconds in line["seconds_all"]:
                theirs.add(line["what"], seconds, line["peak_rss_bytes"] - line["base_rss_bytes"])
        shutil.rmtree(folder / "dcp", ignore_errors=True)
    return ours, theirs


def report(ours, theirs):
    print("within one round:")
    for what, one, other in (("durable save (raw write / save)", "raw_write", "save"),
                             ("durable asynchronous save (raw write / save)", "raw_write", "async_save"),
                             ("stall of an asynchronous save (stall / memcpy)", "async_save_stall", "memcpy"),
                             ("load (raw read / load)", "raw_read", "load")):
        if one == "raw_write":  # measured once a round for each kind of save
            half = ours.seconds[one][0::2] if other == "async_save" else ours.seconds[one][1::2]
            value = statistics.median(a / b for a, b in zip(half, ours.seconds[other])) if half else 0
        else:
            value = ours.ratio(one, other)
        print(f"  {what:50} {value:6.2f}")
    print(f"  {'resharded load: bytes read / bytes needed':50} {ours.count['reshard'] / 2147e6:6.3f}")
    print(f"{'':14}{'ours':>10}{'memory':>12}{'DCP':>12}{'memory':>12}{'times as fast':>16}")
    for mine, other in (("save", "save"), ("async_save_stall", "async_stall"), ("async_save", "async_total"),
                        ("load", "load"), ("reshard", "reshard")):
        seconds, extra = ours.row(mine)
        peer, peer_extra = theirs.row(other)
        print(f"{other:14}{seconds:8.2f} s{extra / 2**20:8.0f} MiB{peer:10.2f} s{peer_extra / 2**20:8.0f} MiB"
              f"{peer / seconds:16.2f}")
    for what in sorted(ours.seconds):
        print(f"  ours {what}: {' '.join(f'{s:.3f}' for s in ours.seconds[what])}")
    for what in sorted(theirs.seconds):
        print(f"  DCP {what}: {' '.join(f'{s:.3f}' for s in theirs.seconds[what])}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", required=True)
    parser.add_argument("--folder", type=pathlib.Path, help="on the disk to be measured; 10 GB; default: a temporary one here")
    parser.add_argument("--runs", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="echelon-bench-", dir=args.folder or ".") as folder:
        report(*run(args, pathlib.Path(folder)))


if __name__ == "__main__":
    main()
