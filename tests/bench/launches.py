"""Started on a Slurm cluster by `./make.sh bench launch_slurm`: launches.py ECHELON HELLO RANKS...

From srun to the end of the first collective, beside programs that do less. One JSON line for each number of ranks:
`srun true` and a program of MPI_Init, MPI_Barrier and MPI_Finalize, from srun's begin to its end; what `echelon doctor
bootstrap` reports of itself, from rank 0's start on: joining PMIx and one exchange, starting MPI, one barrier.
"""
import json
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
    echelon, hello, *counts = sys.argv[1:]
    launch(4, echelon, "doctor", "bootstrap")  # warms the page cache
    for ranks in map(int, counts):
        nothing, _ = launch(ranks, "true")
        whole, _ = launch(ranks, hello)
        report = json.loads(launch(ranks, echelon, "doctor", "bootstrap", "--json")[1])
        if report["ranks"] != ranks:
            sys.exit(f"{report['ranks']} ranks met, expected {ranks}")
        pmix, mpi, barrier = (report["bootstrap_ms"] + report["exchange_ms"]) / 1e3, report["mpi"]["start_ms"] / 1e3, \
            report["mpi"]["barrier_ms"] / 1e3
        print(json.dumps({"ranks": ranks, "true_s": nothing, "hello_s": whole, "pmix_s": pmix, "mpi_s": mpi,
                          "barrier_s": barrier, "together_s": pmix + mpi + barrier}), flush=True)


if __name__ == "__main__":
    main()
