"""From srun to the end of the first collective, for 2 to 64 ranks on four nodes, beside programs that do less.

Columns, medians of the repetitions, all of one round in turn: `srun true`; MPI_Init, MPI_Barrier, MPI_Finalize; `echelon
doctor bootstrap`, less its 16 MiB all-gather: PMIx exchange, MPI and one barrier, and what it prints.
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
    print("| ranks | srun true | MPI hello | Echelon | of it PMIx | of it MPI | Echelon / MPI hello |")
    print("|---|---|---|---|---|---|---|")
    for ranks in args.ranks:
        rows = []
        for _ in range(args.repeat):
            nothing, _ = launch(ranks, "true")
            hello, _ = launch(ranks, args.hello)
            took, printed = launch(ranks, args.echelon, "doctor", "bootstrap", "--json")
            report = json.loads(printed)
            if report["ranks"] != ranks:
                sys.exit(f"{report['ranks']} ranks met, expected {ranks}")
            took -= report["mpi"]["all_gather_ms"] / 1000
            pmix = (report["bootstrap_ms"] + report["exchange_ms"]) / 1000
            rows.append((nothing, hello, took, pmix, report["mpi"]["start_ms"] / 1000, took / hello))
        median = [statistics.median(column) for column in zip(*rows)]
        print(f"| {ranks} | " + " | ".join(f"{value:.2f} s" for value in median[:-1]) + f" | {median[-1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
