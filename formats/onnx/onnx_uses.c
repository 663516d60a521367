/* onnx_uses.c - determines how operators read each tensor. This is evidence for the role of the tensor. */
#include "formats/onnx/onnx.h"

#include <string.h>

#include "estimator/model/ops.h"

enum { PASSES_MAX = 4 }; /* maximum number of consecutive rearrangements of a tensor through which uses are always followed */

static const mp_op *row_of(const mp_operator *op)
{
    return mp_op_find(op->domain, op->kind, op->version);
}

static bool is_kind(const mp_operator *op, const char *kinds)
{
    const size_t n = strlen(op->kind);
    for (const char *at = kinds; !*op->domain && *at; at += strcspn(at, " ") + (at[strcspn(at, " ")] == ' '))
        if (strcspn(at, " ") == n && !memcmp(at, op->kind, n)) return true;
    return false;
}

static unsigned how_read(const mp_operator *op, mp_input_use operand)
{
    static const unsigned how[] = {
        [MP_USE_UNSTATED] = MP_ONNX_READ_OTHER,
        [MP_USE_NONE] = MP_ONNX_READ_OTHER,
        [MP_USE_OTHER] = MP_ONNX_READ_OTHER,
        [MP_USE_WEIGHT] = MP_ONNX_READ_WEIGHT,
        [MP_USE_ROWS] = MP_ONNX_READ_WEIGHT | MP_ONNX_READ_ROWS,
        [MP_USE_STATISTIC] = MP_ONNX_READ_STATISTIC,
        [MP_USE_SETTING] = MP_ONNX_READ_SETTING,
        [MP_USE_TABLE] = MP_ONNX_READ_OTHER,
        [MP_USE_COMPARED] = MP_ONNX_READ_COMPARED,
        /* the operator only passes the operand on; note_passes copies the uses of its output to the operand */
        [MP_USE_THROUGH] = 0};
    return operand == MP_USE_ROWS && mp_operator_int(op, "axis", 0) != 0 ? MP_ONNX_READ_OTHER : how[operand];
}

static void note_reads(const mp_operator *op, mp_onnx_use *uses)
{
    const mp_op *row = row_of(op);
    for (int k = 0; k < op->n_in && !op->removed; k++) {
        if (op->in[k] < 0) continue;
        mp_onnx_use *u = &uses[op->in[k]];
        mp_input_use operand = mp_op_input_of(row, k).use;
        u->n_reads++;
        u->n_factor += is_kind(op, "Mul Div");
        if (op->control)
            continue; /* operands of control operators are used in regions; note_regions copies the uses in the regions */
        u->n_table += operand == MP_USE_TABLE;
        u->how |= how_read(op, operand);
    }
}

/* Copies uses between a control operator and its regions. An operand of the operator is read in the way in which the regions
 * read it. A result of a region is read in the way in which the operator's output is read. */
static void note_regions(const mp_model *model, const mp_operator *op, mp_onnx_use *uses)
{
    for (int k = 0; k < 2 && op->regions[k]; k++) {
        const mp_region *r = &model->regions[op->regions[k]];
        for (int j = 0; j < r->n_formals; j++) {
            int input = mp_operator_input_of_formal(model, op, j);
            if (input >= 0) uses[input].how |= uses[r->formals[j]].how;
        }
        for (int j = 0; j < r->n_results; j++) {
            int output = mp_operator_output_of_result(op, j);
            if (output >= 0) uses[r->results[j]].how |= uses[output].how;
        }
    }
}

/* Copies the uses of the output of a rearrangement to its input. Visits operators from last to first, so that one round
 * suffices for a sorted file. */
static void note_passes(const mp_model *model, mp_onnx_use *uses)
{
    for (int round = 0; round < PASSES_MAX; round++) {
        for (size_t n = model->n_operators; n-- > 0;) {
            const mp_operator *op = &model->operators[n];
            note_regions(model, op, uses);
            if (mp_op_input_of(row_of(op), 0).use != MP_USE_THROUGH || op->n_in < 1 || op->in[0] < 0) continue;
            for (int k = 0; k < op->n_out; k++)
                if (op->out[k] >= 0) uses[op->in[0]].how |= uses[op->out[k]].how;
        }
    }
}

/* Flags of a tensor that are needed only while uses are determined. */
enum { FIXED = 1, SCORES = 2, SCORE_OPERAND = 4 };

static bool has(const mp_operator *op, const unsigned char *marks, unsigned char mark)
{
    for (int k = 0; k < op->n_out; k++)
        if (op->out[k] >= 0 && marks[op->out[k]] & mark) return true;
    return false;
}

static void mark_inputs(const mp_operator *op, unsigned char *marks, int n, unsigned char mark)
{
    for (int k = 0; k < n && k < op->n_in; k++)
        if (op->in[k] >= 0) marks[op->in[k]] |= mark;
}

/* Marks as FIXED the outputs of operators that do not depend on any input of the model: Constant operators, and operators
 * that read only fixed tensors. */
static void mark_fixed(const mp_model *model, unsigned char *marks)
{
    for (size_t k = 0; k < model->n_tensors; k++)
        if (model->tensors[k].producer < 0 && model->tensors[k].role == MP_ROLE_CONSTANT) marks[k] |= FIXED;
    for (size_t n = 0; n < model->n_operators; n++) {
        const mp_operator *op = &model->operators[n];
        const mp_op *row = row_of(op);
        bool fixed = !op->removed && !op->control && row && !(row->traits & MP_TRAIT_RANDOM);
        for (int k = 0; fixed && k < op->n_in; k++) fixed = op->in[k] < 0 || marks[op->in[k]] & FIXED;
        for (int k = 0; fixed && k < op->n_out; k++)
            if (op->out[k] >= 0) marks[op->out[k]] |= FIXED;
    }
}

/* Types of operators by which a weight may be computed, elementwise, from a stored tensor. */
static const char computes_weights[] = "Add Sub Mul Div Neg DequantizeLinear Concat Pad";

/* True if the operator adds a bias: input k is a fixed tensor, and the other input is the result of a product with a fixed
 * matrix or filter. */
static bool adds_bias(const mp_model *model, const mp_operator *op, const unsigned char *marks, int k)
{
    const int other = is_kind(op, "Add") && op->n_in == 2 ? op->in[1 - k] : -1;
    const int producer = other >= 0 ? model->tensors[other].producer : -1;
    if (producer < 0 || !is_kind(&model->operators[producer], "MatMul Gemm Conv ConvTranspose")) return false;
    const int weight = model->operators[producer].n_in > 1 ? model->operators[producer].in[1] : -1;
    return weight >= 0 && marks[weight] & FIXED;
}

/* Marks the stored tensors from which weights are computed. Goes backwards from the operators that read weights. */
static void note_weights(const mp_model *model, const unsigned char *marks, mp_onnx_use *uses)
{
    for (size_t k = 0; k < model->n_tensors; k++) uses[k].makes_weight = marks[k] & FIXED && uses[k].how & MP_ONNX_READ_WEIGHT;
    for (size_t n = model->n_operators; n-- > 0;) {
        const mp_operator *op = &model->operators[n];
        bool makes = false;
        for (int k = 0; k < 2 && k < op->n_in; k++)
            if (op->in[k] >= 0 && marks[op->in[k]] & FIXED && adds_bias(model, op, marks, k))
                uses[op->in[k]].makes_weight = true;
        for (int k = 0; k < op->n_out; k++) makes |= op->out[k] >= 0 && uses[op->out[k]].makes_weight;
        if (!makes) continue;
        const bool through = mp_op_input_of(row_of(op), 0).use == MP_USE_THROUGH;
        for (int k = 0; (through || is_kind(op, computes_weights)) && k < (through ? 1 : op->n_in); k++)
            if (op->in[k] >= 0 && marks[op->in[k]] & FIXED) uses[op->in[k]].makes_weight = true;
    }
}

/* Marks the tensors that scale scores before a softmax. They may also scale the operands of the product that computes the
 * scores. */
static void note_scaling(const mp_model *model, unsigned char *marks, mp_onnx_use *uses)
{
    for (size_t n = model->n_operators; n-- > 0;) {
        const mp_operator *op = &model->operators[n];
        const bool through = mp_op_input_of(row_of(op), 0).use == MP_USE_THROUGH;
        if (is_kind(op, "Softmax LogSoftmax")) mark_inputs(op, marks, 1, SCORES);
        const bool scores = has(op, marks, SCORES), operand = has(op, marks, SCORE_OPERAND);
        if (!scores && !operand) continue;
        if (is_kind(op, "Mul Div"))
            for (int k = 0; k < op->n_in; k++) uses[op->in[k] < 0 ? 0 : op->in[k]].n_scaling += op->in[k] >= 0;
        if (scores && is_kind(op, "MatMul")) mark_inputs(op, marks, 2, SCORE_OPERAND);
        if (scores && is_kind(op, "Add Sub Mul Div")) mark_inputs(op, marks, 2, SCORES);
        if (scores && is_kind(op, "Where")) mark_inputs(op, marks, 3, SCORES);
        if (operand && is_kind(op, "Mul Div")) mark_inputs(op, marks, 2, SCORE_OPERAND);
        if (through) mark_inputs(op, marks, 1, scores ? SCORES : SCORE_OPERAND);
    }
}

mp_status mp_onnx_uses_find(const mp_model *model, mp_onnx_use **out, mp_error *err)
{
    MP_OWNED mp_onnx_use *uses = mp_alloc(model->n_tensors, sizeof *uses);
    MP_OWNED unsigned char *marks = mp_alloc(model->n_tensors, sizeof *marks);
    MP_ENSURE(uses && marks, err, MP_NOMEM, "no memory for the uses of %zu tensors", model->n_tensors);
    for (size_t k = 0; k < model->n_operators; k++) note_reads(&model->operators[k], uses);
    for (size_t k = 0; k < model->n_outputs; k++) {
        uses[model->outputs[k]].how |= MP_ONNX_READ_OTHER;
        uses[model->outputs[k]].n_reads++;
    }
    note_passes(model, uses);
    mark_fixed(model, marks);
    note_weights(model, marks, uses);
    note_scaling(model, marks, uses);
    *out = uses;
    uses = NULL;
    return MP_OK;
}
