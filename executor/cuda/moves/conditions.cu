/* conditions.cu - which elements of a condition are true, as a list. One block counts stretches of it, and writes the list. */
#include "executor/cuda/gathers/gather.cuh"

struct true_ones {
    enum { PHASES = 3 };
    struct room {
        int64_t begin[MP_GRID_THREADS + 1]; /* how many are true before a thread's stretch; the last: in all */
    };
    const uint8_t *condition;
    int64_t n, n_wanted, *list;

    MP_BODY void operator()(int phase, int64_t, int thread, room &shared) const
    {
        const int64_t length = (n + MP_GRID_THREADS - 1) / MP_GRID_THREADS, first = thread * length;
        const int64_t end = first + length < n ? first + length : n;
        if (phase == 0) {
            int64_t count = 0;
            for (int64_t k = first; k < end; k++) count += condition[k] != 0;
            shared.begin[thread] = count;
        } else if (phase == 1) {
            if (thread) return;
            int64_t sum = 0;
            for (int t = 0; t < MP_GRID_THREADS; t++) {
                const int64_t own = shared.begin[t];
                shared.begin[t] = sum;
                sum += own;
            }
            shared.begin[MP_GRID_THREADS] = sum;
        } else {
            int64_t at = shared.begin[thread];
            for (int64_t k = first; k < end && at < n_wanted; k++)
                if (condition[k]) list[at++] = k;
            for (int64_t k = shared.begin[MP_GRID_THREADS] + thread; k < n_wanted; k += MP_GRID_THREADS) list[k] = INT64_MIN;
        }
    }
};

void mp_cuda_list_true(const mp_array *condition, int64_t n, const mp_array *list)
{
    const int64_t there = mp_array_elements(condition);
    mp_each_block(
        1, true_ones{(const uint8_t *)condition->data, there < n ? there : n, mp_array_elements(list), (int64_t *)list->data});
}
