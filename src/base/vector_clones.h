#pragma once

/// ECHELON_VECTOR_CLONES before a function compiles it for several generations of x86 processors; the loader
/// picks the newest that this one supports (IFUNC). Empty elsewhere, and under sanitizers, which do not work
/// with IFUNC.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define ECHELON_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define ECHELON_VECTOR_CLONES
#endif
