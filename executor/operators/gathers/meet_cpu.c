/* meet_cpu.c - a line of updates meets a line of elements, by type. */
#include "executor/operators/gathers/meet_cpu.h"

#include "executor/cpu/base/parallel.h"

#define MEET(T, U)                                                                                               \
    static void meet_##T(mp_meeting how, int64_t n, T *into, int64_t into_stride, const T *from, int64_t stride) \
    {                                                                                                            \
        for (int64_t k = 0; k < n; k++) {                                                                        \
            T *a = &into[k * into_stride], b = from[k * stride];                                                 \
            *a = MP_MEET(how, T, U, *a, b);                                                                      \
        }                                                                                                        \
    }
MEET(float, float)
MEET(double, double)
MEET(int64_t, uint64_t)
MEET(int32_t, uint32_t)
MEET(int8_t, uint32_t)
MEET(uint8_t, uint32_t)

void mp_cpu_meet(mp_meeting how, mp_dtype dtype, int64_t n, void *into, int64_t into_at, int64_t into_stride,
                 const void *values, int64_t at, int64_t stride)
{
    switch (dtype) {
    case MP_DTYPE_FLOAT:
        meet_float(how, n, (float *)into + into_at, into_stride, (const float *)values + at, stride);
        break;
    case MP_DTYPE_DOUBLE:
        meet_double(how, n, (double *)into + into_at, into_stride, (const double *)values + at, stride);
        break;
    case MP_DTYPE_INT64:
        meet_int64_t(how, n, (int64_t *)into + into_at, into_stride, (const int64_t *)values + at, stride);
        break;
    case MP_DTYPE_INT32:
        meet_int32_t(how, n, (int32_t *)into + into_at, into_stride, (const int32_t *)values + at, stride);
        break;
    case MP_DTYPE_INT8:
        meet_int8_t(how, n, (int8_t *)into + into_at, into_stride, (const int8_t *)values + at, stride);
        break;
    case MP_DTYPE_UINT8:
        meet_uint8_t(how, n, (uint8_t *)into + into_at, into_stride, (const uint8_t *)values + at, stride);
        break;
    default:
        for (int64_t k = 0; k < n; k++) {
            float a_room, b_room, a = *mp_floats(into, dtype, into_at + k * into_stride, 1, &a_room);
            meet_float(how, 1, &a, 1, mp_floats(values, dtype, at + k * stride, 1, &b_room), 1);
            mp_floats_done(into, dtype, into_at + k * into_stride, 1, &a);
        }
    }
}
