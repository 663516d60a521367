/* accuracy.h - how well parameters do on samples that they were not trained on. */
#ifndef MEMPLAN_ACCURACY_H
#define MEMPLAN_ACCURACY_H

#include <stdint.h>

typedef struct mp_accuracy {
    int64_t n_samples; /* looked at: whole batches; of a text, about as many windows as fit side by side in it */
    double loss;       /* the mean over the batches */
    double accuracy;   /* the share of labels that have the highest score; -1: the loss is not over classes */
} mp_accuracy;

#endif
