#pragma once

/// ECHELON_VECTOR_CLONES before a function: compiled for several generations of x86 processors, of which the
/// loader picks the newest that this one understands. Elsewhere nothing. (Sanitizers and IFUNC do not go
/// together.)
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define ECHELON_VECTOR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define ECHELON_VECTOR_CLONES
#endif
