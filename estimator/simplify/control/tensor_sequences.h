/* tensor_sequences.h - operators on sequences of tensors, once it is known which tensors are in them.
 *
 * A sequence is known as soon as the loop that fills it is unrolled. Then nothing of it has to exist when the model runs:
 * SequenceAt is one of the tensors, ConcatFromSequence a Concat, SplitToSequence a Split. Sources: ONNX's operator
 * descriptions.
 */
#pragma once

#include "estimator/simplify/control/inference.h"

/* Is it an operator that makes, changes or reads sequences? */
bool mp_is_sequence_operator(const mp_operator *op);
/* Takes such an operator out, and leaves what it stands for. MP_PARSE: operands that do not fit; MP_UNSUPPORTED: a position or
 * a size that depends on data; MP_NOMEM. */
mp_status mp_sequence_resolve(mp_inference *w, int op);
