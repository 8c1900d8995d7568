"""Each lint script on a small clean tree (no finding) and on the same tree with one fault put in (that finding).

Run it with the test venv's Python: limits.py needs lizard, format.py clang-format.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent

BUILD = object()
CLEAN = {
    "README.md": "# Sample\n\nSee [the guide](docs/guide.md#first-steps).\n",
    "docs/guide.md": "# Guide\n## First steps\nText.\n",
    "run.sh": "#!/usr/bin/env bash\nset -e\necho \"$1\"\n",
    "job.sbatch": "#!/usr/bin/env bash\n#SBATCH --job-name=x\n#SBATCH --output=%x-%j.out\n#SBATCH --time=1:00:00\nsrun true\n",
    "src/base/text.h": "#pragma once\n#include <string>\n\nstd::string text();\n",
    "src/base/text.cpp": "#include \"base/text.h\"\n\nstd::string text() {\n  return {};\n}\n",
    "src/data/options.h": "#pragma once\n\nstruct DataOptions {};\n",
    "src/checkpoint/file.cpp": "#include <hdf5.h>\n\n#include \"base/text.h\"\n",
    "src/recipe/recipe.h": "#pragma once\n#include \"data/options.h\"\n",
    "checkpoints_tool/list.cpp": "#include \"base/text.h\"\n",
}


def script(name, tree, *arguments):
    """Runs one lint script on a tree of {path: text}; returns its exit status and what it printed.

    An argument BUILD stands for a build folder whose compile commands hold the sources of src/base.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in tree.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        (root / ".clang-format").write_text((HERE.parents[1] / ".clang-format").read_text())
        (root / "build").mkdir()
        commands = [{"file": str(path), "directory": folder, "command": f"c++ -std=c++20 -I{root / 'src'} -c {path}"}
                    for path in root.glob("src/base/*.cpp")]
        (root / "build/compile_commands.json").write_text(json.dumps(commands))
        arguments = [str(root / "build") if argument == BUILD else argument for argument in arguments]
        command = [sys.executable, str(HERE / f"{name}.py"), "--root", folder, *arguments]
        result = subprocess.run(command, capture_output=True, text=True)
        return result.returncode, result.stdout + result.stderr


# A lint, files laid over the clean tree, what the one finding must say, and options.
FAULTS = [
    ("include_graph", {"src/base/text.h": '#include "data/options.h"\n'},
     "src/base/text.h:1: base may not include data/options.h"),
    ("include_graph", {"src/data/file.cpp": '\n#include "checkpoint/options.h"\n', "src/checkpoint/options.h": "\n"},
     "src/data/file.cpp:2: data may not include checkpoint/options.h"),
    ("include_graph", {"src/data/loader.h": "\n", "src/recipe/load.cpp": '#include "data/loader.h"\n'},
     "recipe may not include data/loader.h"),
    ("include_graph", {"checkpoints_tool/list.cpp": "#include <torch/torch.h>\n"}, "checkpoints_tool may not include torch/torch.h"),
    ("include_graph", {"src/data/file.cpp": "#include <hdf5.h>\n"}, "HDF5 belongs to checkpoint"),
    ("include_graph", {"src/base/text.h": '#include "base/more.h"\n', "src/base/more.h": '#include "base/text.h"\n'},
     "include cycle: base/"),
    ("include_graph", {"src/data/file.cpp": '#include "base/gone.h"\n'}, "no such header: base/gone.h"),
    ("std_headers", {"src/base/text.cpp": "#include <functional>\nint f() { return std::min(1, 2); }\n"},
     "src/base/text.cpp:2: uses std::min and does not include <algorithm>"),
    ("limits", {"src/base/long.h": "// line\n" * 151}, "src/base/long.h:150: 151 lines"),
    ("limits", {"src/base/long.cpp": "// line\n" * 401}, "src/base/long.cpp:400: 401 lines"),
    ("limits", {"src/base/long.cpp": "\nint f() {\n" + "  g();\n" * 60 + "}\n"},
     "src/base/long.cpp:2: f has 62 lines"),
    ("limits", {f"src/base/file_{i}.h": "\n" for i in range(30)}, "src/base: 32 files, the limit is 30"),
    ("headers_alone", {"src/base/lone.h": "#pragma once\nechelon::Error fault();\n"},
     "src/base/lone.h:1: does not compile alone", "--build", BUILD),
    ("headers_alone", {"src/base/text.cpp": "#include <string>\n#include \"base/text.h\"\n"},
     "src/base/text.cpp:1: does not include its own header first", "--build", BUILD),
    ("clean_tree", {"README.md": "from https://pypi.org/x\n"}, "README.md:1: the name of a package registry"),
    ("format", {"src/base/text.cpp": "int   f( ) {return 1;}\n"}, "src/base/text.cpp:1:"),
    ("shell", {"run.sh": "#!/usr/bin/env bash\nif true; then\n"}, "run.sh: line"),
    ("shell", {"run.sh": "#!/usr/bin/env bash\nrm $1\n"}, "SC2086"),
    ("docs", {"README.md": "See\n[it](docs/gone.md).\n"}, "README.md:2: link 'docs/gone.md'"),
    ("docs", {"README.md": "[it](docs/guide.md#last-steps)\n"}, "no heading 'last-steps'"),
]


class Lint(unittest.TestCase):
    def finds(self, name, fault, expected, *arguments):
        """`fault`: files laid over the clean tree; `expected`: what the one finding must say."""
        status, output = script(name, CLEAN, *arguments)
        self.assertEqual(status, 0, f"{name} on the clean tree: {output}")
        status, output = script(name, CLEAN | fault, *arguments)
        self.assertEqual(status, 1, f"{name} missed the fault: {output}")
        self.assertIn(expected, output)

    def test_every_lint_finds_its_faults(self):
        for name, fault, expected, *arguments in FAULTS:
            with self.subTest(name, fault=fault):
                self.finds(name, fault, expected, *arguments)

    def test_include_graph_finds_a_room_seen_from_below(self):
        rooms = {"src/checkpoint/read/reader.h": "\n", "src/checkpoint/write/commit.h": "\n", "src/checkpoint/format/names.h": "\n"}
        self.finds("include_graph", rooms | {"src/checkpoint/format/names.h": '#include "checkpoint/read/reader.h"\n'},
                   "src/checkpoint/format/names.h:1: checkpoint/format may not include checkpoint/read/reader.h")
        self.finds("include_graph", rooms | {"src/checkpoint/read/reader.h": '#include "checkpoint/write/commit.h"\n'},
                   "checkpoint/read may not include checkpoint/write/commit.h: of checkpoint it sees folder, format, hdf5")
        self.finds("include_graph", rooms | {"src/checkpoint/cellar/new.h": '#include "checkpoint/read/reader.h"\n'},
                   "room 'cellar' of checkpoint has no place")
        allowed = {"src/checkpoint/read/reader.h": '#include "checkpoint/format/names.h"\n'}
        self.assertEqual(script("include_graph", CLEAN | rooms | allowed)[0], 0)

    def test_include_graph_finds_foreign_types_carried_by_a_header(self):
        fault = {"src/checkpoint/h5.h": "#include <hdf5.h>\n", "src/checkpoint/read/reader.h": '#include "checkpoint/h5.h"\n',
                 "checkpoints_tool/list.cpp": '#include "checkpoint/read/reader.h"\n'}
        self.finds("include_graph", fault, "checkpoint/read/reader.h carries HDF5 into checkpoints_tool "
                                           "(through checkpoint/h5.h -> hdf5.h)")

    def test_include_graph_keeps_libtorch_behind_the_border_of_the_engine(self):
        border = {"src/app/main.cpp": '#include "app/engine/engine.h"\n', "src/app/engine/engine.h": "\n"}
        self.assertEqual(script("include_graph", CLEAN | border)[0], 0)
        self.finds("include_graph", border | {"src/app/engine/engine.h": "#include <ATen/ATen.h>\n"},
                   "app/engine/engine.h carries libtorch into app")

    def test_one_of_each_finds_a_constant_that_hides_another(self):
        header = {"tests/unit/data/kill/save.h": "inline constexpr int kKept = 3;\n"}
        self.finds("one_of_each", header | {"tests/unit/data/write/stays_test.cpp": "\nconstexpr std::int64_t kKept = 2;\n"},
                   "tests/unit/data/write/stays_test.cpp:2: name: 'kKept' hides that of tests/unit/data/kill/save.h")
        elsewhere = {"tests/unit/base/text_test.cpp": "constexpr int kKept = 2;\n"}
        self.assertEqual(script("one_of_each", CLEAN | header | elsewhere)[0], 0)

    def test_one_of_each_finds_what_is_built_again(self):
        for line, what in (("auto x = json::parse(text);", "JSON: 'json::parse('"), ("pid_t p = fork();", "process: 'fork('"),
                           ("int f = ::open(path, 0);", "file: '::open('"), ("std::ofstream file(path);", "file: 'std::ofstream'"),
                           ("std::filesystem::remove_all(path);", "file: 'std::filesystem::remove_all('")):
            self.finds("one_of_each", {"src/data/file.cpp": f"// json::parse(\n{line}\n"}, f"src/data/file.cpp:2: {what}")
        maker = {"src/base/files/disk.cpp": "int f = ::open(path, 0);\n", "src/data/file.cpp": "int f = fs::open(path, 0);\n"}
        self.assertEqual(script("one_of_each", CLEAN | maker)[0], 0)

    @unittest.skipUnless(shutil.which("clang-tidy-14"), "no clang-tidy-14 in this distribution")
    def test_tidy_finds_a_use_after_move_and_one_without_the_mutex(self):
        fault = "#include <utility>\n#include <vector>\nint f(std::vector<int> a) {\n" \
                "  std::vector<int> b = std::move(a);\n  return b[0] + a[0];\n}\n"
        self.finds("tidy", {"src/base/text.cpp": fault}, "src/base/text.cpp:5:17: error: 'a' used after it was moved",
                   "--build", BUILD)
        fault = 'struct __attribute__((capability("mutex"))) Mutex {};\n' \
                "struct Count {\n  Mutex mutex;\n  int value __attribute__((guarded_by(mutex)));\n};\n" \
                "int f(const Count& count) {\n  return count.value;\n}\n"
        self.finds("tidy", {"src/base/text.cpp": fault}, "src/base/text.cpp:7:16: error: reading variable 'value' requires holding",
                   "--build", BUILD)

    def test_clean_tree_finds_unfinished_work(self):
        for words in ("TODO", "FIXME", "a placeholder", "good enough for now", "not implemented", "Not yet implemented"):
            self.finds("clean_tree", {"src/base/text.cpp": f"\n// {words}\n"}, "src/base/text.cpp:2: marked as unfinished")

    def test_clean_tree_finds_machine_paths(self):
        for path in ("/work/main", "/root/x", "/home/someone/data"):
            self.finds("clean_tree", {"run.sh": f"ls {path}\n"}, "run.sh:1: a path of one machine")

    def test_shell_values_finds_what_bash_would_run_from_a_file(self):
        uses = ("((x > 1))", "y=$((x + 1))", "[[ $x -gt 1 ]]", "[[ 1 -eq $x ]]", "y=${list[x]}", "list[$x]=1", "y=${z:x}",
                "y=${z:0:$x}", "printf '%d' \"$x\"", "y=${!x}", "let y=x", "for y in $x; do ((y)); done", "y=$x; echo $((y))")
        gives = ("read -r _ x <file", "while read -rt 1 -u 3 x; do :; done", "mapfile -t x <file", "x=$(<file)",
                 "x=$(sed p file)", "x=$(echo | grep -o 1)")
        for given, use in [(gives[0], use) for use in uses] + [(given, uses[0]) for given in gives[1:]]:
            lines = f"#!/usr/bin/env bash\n{given}\n@{use}\n".replace("; ", "\n")
            self.finds("shell_values", {"run.sh": lines.replace("@", "")}, "which comes from a file")
            tested = {"run.sh": lines.replace("@", "[[ $x =~ ^[0-9]+$ ]] || exit\n")}
            self.assertEqual(script("shell_values", CLEAN | tested)[0], 0, tested)
        clean = "f() {\n  local x\n  read -r x\n}\ng() {\n  local x=1\n  ((x > ${#list[@]}))\n}\n[[ $x == 1 ]] && echo ${x:-1}\n"
        self.assertEqual(script("shell_values", CLEAN | {"run.sh": f"#!/usr/bin/env bash\n{clean}"})[0], 0)

    def test_sbatch_finds_a_directive_that_slurm_would_pass_over(self):
        script = CLEAN["job.sbatch"]
        for old, new, expected in (("#SBATCH --time", "# SBATCH --time", "job.sbatch:4: '# SBATCH"),
                                   ("--time=1", "--tiem=1", "job.sbatch:4: --tiem is not an option of sbatch"),
                                   ("srun true\n", "srun true\n#SBATCH --requeue\n", "job.sbatch:6: Slurm reads no #SBATCH"),
                                   ("#SBATCH --job-name=x\n", "#SBATCH --job-name=x --requeue\n", "job.sbatch:2: --job-name"),
                                   ("#SBATCH --job-name=x\n", "#SBATCH -J x\n", "job.sbatch:2: expected '#SBATCH --option'")):
            self.finds("sbatch", {"job.sbatch": script.replace(old, new)}, expected)

    def test_docs_finds_a_block_that_differs_from_its_file(self):
        page = CLEAN["README.md"] + "<!-- file: run.sh -->\n```bash\n" + CLEAN["run.sh"] + "```\n"
        self.assertEqual(script("docs", CLEAN | {"README.md": page})[0], 0)
        self.finds("docs", {"README.md": page.replace("set -e", "set -u")}, "README.md:4: the block is not what run.sh")

    def test_nothing_to_check_is_a_fault(self):
        for name in ("include_graph", "one_of_each", "std_headers", "limits", "format", "shell", "shell_values", "sbatch", "docs"):
            status, output = script(name, {"notes.bin": "\n"})
            self.assertEqual((status, "nothing to check" in output), (1, True), f"{name}: {output}")


if __name__ == "__main__":
    unittest.main()
