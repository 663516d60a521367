/* test_nccl_calls.c - memplan's declarations of NCCL's calls equal NCCL's header, if it is installed. */
#if defined __has_include
#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#define HAS_HEADER
#include <nccl.h>
#endif
#endif

#include "executor/nccl/nccl_calls.h"
#include "tests/cases/test.h"

#ifdef HAS_HEADER
/* An incompatible declaration does not compile. */
#define SAME(result, name, arguments) \
    _Static_assert(_Generic(&name, result(*) arguments : 1, default : 0), #name " is another");
MP_NCCL_CALLS(SAME)
#endif

TEST(declarations_are_those_of_the_header)
{
#ifdef HAS_HEADER
    assert_int_equal(MP_NCCL_SUCCESS, ncclSuccess);
    assert_int_equal(MP_NCCL_SUM, ncclSum);
    assert_int_equal(MP_NCCL_INT8, ncclInt8);
    assert_int_equal(MP_NCCL_FLOAT32, ncclFloat32);
    assert_int_equal(MP_NCCL_BFLOAT16, ncclBfloat16);
    assert_int_equal(sizeof(ncclUniqueId), 128);
#else
    skip(); /* <nccl.h> or CUDA's headers are missing */
#endif
}
