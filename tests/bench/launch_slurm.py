"""From srun to the end of the first collective, for 2 to 64 ranks on four nodes, beside programs that do less.

Columns, medians of the repetitions, all of one round in turn: `srun true` and a program of MPI_Init, MPI_Barrier and
MPI_Finalize, from srun's begin to its end; what `echelon doctor bootstrap` reports of itself, from rank 0's start on: joining
PMIx and one exchange, starting MPI, one barrier.
"""
import argparse
import json
import statistics
import subprocess
import sys
import time


def launch(ranks, *command):
    """Seconds, and what it printed."""
    nodes = min(4, ranks)
    words = ["srun", f"--nodes={nodes}", f"--ntasks={ranks}", f"--ntasks-per-node={-(-ranks // nodes)}", "--mpi=pmix",
             "--cpu-bind=none", "--quiet", *command]
    began = time.perf_counter()
    done = subprocess.run(words, capture_output=True, text=True)
    took = time.perf_counter() - began
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit code {done.returncode}: {done.stderr[-500:]}")
    return took, done.stdout


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--echelon", required=True)
    parser.add_argument("--hello", required=True)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8, 16, 32, 64])
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    launch(4, args.echelon, "doctor", "bootstrap")  # warms the page cache
    print("| ranks | srun true | MPI hello, whole | Echelon: PMIx | MPI | first barrier | together |")
    print("|---|---|---|---|---|---|---|")
    for ranks in args.ranks:
        rows = []
        for _ in range(args.repeat):
            nothing, _ = launch(ranks, "true")
            hello, _ = launch(ranks, args.hello)
            report = json.loads(launch(ranks, args.echelon, "doctor", "bootstrap", "--json")[1])
            if report["ranks"] != ranks:
                sys.exit(f"{report['ranks']} ranks met, expected {ranks}")
            parts = [report["bootstrap_ms"] + report["exchange_ms"], report["mpi"]["start_ms"], report["mpi"]["barrier_ms"]]
            rows.append((nothing, hello, *(part / 1000 for part in parts), sum(parts) / 1000))
        median = [statistics.median(column) for column in zip(*rows)]
        print(f"| {ranks} | " + " | ".join(f"{value:.2f} s" for value in median) + " |", flush=True)


if __name__ == "__main__":
    main()
