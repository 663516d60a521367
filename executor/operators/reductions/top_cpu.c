/* top_cpu.c - TopK (top.h) on the CPU. Lines run in parallel; one item of the loop is a line. */
#include "executor/operators/reductions/top.h"

#include "executor/cpu/base/bodies.h"
#include "executor/cpu/base/families.h"

/* Copies the gradients of the values of line k (elements along the axis) to the gradients of the elements that forward
 * selected. All other gradients of the line become 0. */
static inline void spread_line(const mp_top *s, int64_t k)
{
    int64_t value_at;
    const mp_top_line l = mp_top_line_of(s, k, &value_at);
    for (int64_t i = 0; i < s->length; i++) mp_array_store(&s->from, l.at + i * l.step, 0);
    for (int64_t i = 0; i < s->k; i++)
        mp_array_store(&s->from, l.at + l.heap[i * l.heap_step] * l.step, mp_array_load(&s->to, value_at + i * s->value_step));
}

MP_BODY_LOOP(mp_top, mp_top_item)
MP_BODY_LOOP(mp_top, spread_line)

static mp_status run_top(const mp_call *call, const mp_operands *x, mp_error *err)
{
    const mp_top s = mp_top_of(call, x);
    return (x->is_backward ? spread_line_loop : mp_top_item_loop)(&s, s.n_lines, 4 * s.length, err);
}

MP_PREPARE_TO_RUN(prepare, mp_top_prepare, run_top)

const mp_kernel mp_cpu_tops[] = {{"TopK", "", prepare, prepare}, {0}};
