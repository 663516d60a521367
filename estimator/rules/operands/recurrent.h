/* recurrent.h - the sizes of a recurrent layer, read off its operands. */
#ifndef ESTIMATOR_RECURRENT_H
#define ESTIMATOR_RECURRENT_H

#include "estimator/model/ops.h"

typedef struct mp_recurrent {
    int64_t n_steps, batch, input; /* of X */
    int64_t n_directions;          /* 1 or 2 */
    int64_t hidden;
    int64_t gates;    /* 4: LSTM, 3: GRU, 1: RNN */
    bool batch_first; /* layout = 1 */
} mp_recurrent;

/* X and R must be there with 3 dimensions each. */
mp_recurrent mp_recurrent_read(const mp_model *model, const mp_operator *op);

#endif
