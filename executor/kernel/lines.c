/* lines.c - cuts an array into lines, neighbouring dimensions merged. */
#include "executor/kernel/lines.h"

mp_lines mp_lines_of(const mp_array *a, uint32_t line)
{
    mp_lines l = {.n = 1, .length = 1};
    for (int d = 0; d < a->rank; d++) {
        if (line >> d & 1) {
            bool merges = l.n_inner && l.inner_at[l.n_inner - 1] == a->strides[d] * a->dims[d];
            l.length *= a->dims[d];
            if (merges) {
                l.inner[l.n_inner - 1] *= a->dims[d];
                l.inner_at[l.n_inner - 1] = a->strides[d];
            } else {
                l.inner[l.n_inner] = a->dims[d];
                l.inner_at[l.n_inner++] = a->strides[d];
            }
        } else {
            l.n *= a->dims[d];
            l.outer[l.n_outer] = a->dims[d];
            l.outer_dim[l.n_outer] = d;
            l.outer_at[l.n_outer++] = a->strides[d];
        }
    }
    l.contiguous = l.n_inner == 0 || (l.n_inner == 1 && (l.inner_at[0] == 1 || l.length == 1));
    return l;
}

mp_lines mp_softmax_lines(const mp_operands *x)
{
    const int rank = x->in[0].rank;
    const bool is_old = !x->op->domain[0] && x->op->version < 13; /* then everything from the axis on is a line */
    int64_t axis = mp_operator_int(x->op, "axis", is_old ? 1 : -1);
    uint32_t line = 0;
    if (axis < 0) axis += rank;
    for (int d = (int)axis; d < (is_old ? rank : axis + 1); d++) line |= 1u << d;
    return mp_lines_of(&x->in[0], line);
}
