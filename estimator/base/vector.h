/* vector.h - compiles loops over arrays to vector code for the machine that runs them. */
#pragma once

/* Put this attribute before a function with plain loops over arrays. The compiler then generates versions of the function
 * for several instruction sets, and the program selects the best version at start. The function must not contain OpenMP
 * directives. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#if __GNUC__ < 12 /* GCC before 12 can select versions only by single instruction-set extensions */
#define MP_VECTOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define MP_VECTOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#endif
#else
#define MP_VECTOR
#endif
