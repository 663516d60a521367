/* scores.c - finds the best class of each position, among those of all ranks, and compares it with the label. */
#include "executor/train/scores.h"

/* The highest score of a position among the classes of a rank. */
typedef struct best {
    double score;
    int64_t class;
} best;

static double label_at(const mp_array *labels, int64_t k)
{
    return labels->dtype == MP_DTYPE_INT32 ? ((const int32_t *)labels->data)[k] : (double)((const int64_t *)labels->data)[k];
}

/* Finds the best of each position among the classes that are here, of which the first one has this number. */
static void find_best(const mp_array *scores, int64_t first, int64_t inner, int64_t n, best *out)
{
    const int64_t classes = scores->dims[1];
    for (int64_t k = 0; k < n; k++) {
        const float *of = (const float *)scores->data + k / inner * classes * inner + k % inner;
        int64_t highest = 0;
        for (int64_t c = 1; c < classes; c++)
            if (of[c * inner] > of[highest * inner]) highest = c;
        out[k] = (best){of[highest * inner], first + highest};
    }
}

mp_status mp_scores_count(const mp_array *scores, const mp_array *labels, const mp_kernel_team *classes, mp_labels_count *count,
                          mp_error *err)
{
    const int64_t ranks = classes ? classes->n : 1, index = classes ? classes->index : 0, n_classes = ranks * scores->dims[1];
    int64_t inner = 1;
    for (int d = 2; d < scores->rank; d++) inner *= scores->dims[d];
    const int64_t n = scores->dims[0] * inner;
    MP_OWNED best *all = mp_alloc((size_t)(ranks * n), sizeof *all);
    MP_ENSURE(all, err, MP_NOMEM, "there is no memory for the best scores of %lld positions", (long long)n);
    best *own = all + index * n;
    find_best(scores, index * scores->dims[1], inner, n, own);
    if (classes) MP_CHECK(classes->gather(classes, own, n * (int64_t)sizeof *own, all, err));
    for (int64_t k = 0; k < n; k++) {
        const double label = label_at(labels, k);
        const best *highest = &all[k];
        if (!(label >= 0 && label < (double)n_classes)) continue;
        for (int64_t r = 1; r < ranks; r++)
            if (all[r * n + k].score > highest->score) highest = &all[r * n + k];
        count->n_right += (double)highest->class == label;
        count->n_labels++;
    }
    return MP_OK;
}
