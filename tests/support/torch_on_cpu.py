"""Loaded at every start of the test venv's Python (torch_on_cpu.pth): see torch_on_cpu.sh."""
import ctypes
import glob
import os
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the empty libraries must never be called
os.environ.setdefault("HF_HUB_OFFLINE", "1")
sys.setdlopenflags(os.RTLD_LAZY)  # extension modules bind a function when it is first called
for library in sorted(glob.glob(os.path.join(os.path.dirname(__file__), "torch_on_cpu_libs", "*"))):
    ctypes.CDLL(library)  # satisfies later loads of the same name
