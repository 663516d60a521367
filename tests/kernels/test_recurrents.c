/* test_recurrents.c - LSTM, GRU and RNN: values compared with a naive loop over time that follows the definition, gradients
 * with finite differences. ONNX's own vectors run in test_conformance_run. */
#include "estimator/rules/operands/recurrent.h"
#include "tests/cases/kernel_case.h"
#include "tests/cases/test.h"

#define LSTM_WEIGHTS "float32[1,12,2] float32[1,12,3]"
#define GRU_WEIGHTS "float32[1,9,2] float32[1,9,3]"

/* A layer computed in double precision, with arrays in ONNX's layout. */
typedef struct naive {
    int64_t steps, batch, input, hidden, gates, directions;
    bool reverse, before_reset, batch_first;
    const mp_operands *x;
} naive;

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double in(const naive *n, int k, int64_t at)
{
    return k < n->x->n_in && n->x->in[k].dtype ? kernel_get(&n->x->in[k], at) : 0;
}

/* Return gate g of unit j before its activation: the parts x W + Wb, and h R + Rb. */
static double of_input(const naive *n, int d, int64_t g, int64_t j, int64_t t, int64_t b)
{
    const int64_t row = (d * n->gates + g) * n->hidden + j;
    double sum = in(n, 3, (d * 2 * n->gates + g) * n->hidden + j);
    const int64_t at = n->batch_first ? b * n->steps + t : t * n->batch + b;
    for (int64_t i = 0; i < n->input; i++) sum += in(n, 0, at * n->input + i) * in(n, 1, row * n->input + i);
    return sum;
}
static double of_state(const naive *n, int d, int64_t g, int64_t j, const double *h)
{
    const int64_t row = (d * n->gates + g) * n->hidden + j;
    double sum = in(n, 3, (d * 2 * n->gates + n->gates + g) * n->hidden + j);
    for (int64_t i = 0; i < n->hidden; i++) sum += h[i] * in(n, 2, row * n->hidden + i);
    return sum;
}

static void lstm_step(const naive *n, int d, int64_t t, int64_t b, double *h, double *c)
{
    double next[16];
    for (int64_t j = 0; j < n->hidden; j++) {
        const int64_t p = d * 3 * n->hidden + j;
        const double i = sigmoid(of_input(n, d, 0, j, t, b) + of_state(n, d, 0, j, h) + in(n, 7, p) * c[j]);
        const double f = sigmoid(of_input(n, d, 2, j, t, b) + of_state(n, d, 2, j, h) + in(n, 7, p + 2 * n->hidden) * c[j]);
        const double g = tanh(of_input(n, d, 3, j, t, b) + of_state(n, d, 3, j, h));
        c[j] = f * c[j] + i * g;
        const double o = sigmoid(of_input(n, d, 1, j, t, b) + of_state(n, d, 1, j, h) + in(n, 7, p + n->hidden) * c[j]);
        next[j] = o * tanh(c[j]);
    }
    memcpy(h, next, (size_t)n->hidden * sizeof *h);
}

static void gru_step(const naive *n, int d, int64_t t, int64_t b, double *h)
{
    double next[16], z[16], r[16], scaled[16];
    for (int64_t j = 0; j < n->hidden; j++) {
        z[j] = sigmoid(of_input(n, d, 0, j, t, b) + of_state(n, d, 0, j, h));
        r[j] = sigmoid(of_input(n, d, 1, j, t, b) + of_state(n, d, 1, j, h));
        scaled[j] = r[j] * h[j];
    }
    for (int64_t j = 0; j < n->hidden; j++) {
        const double recurrent = n->before_reset ? r[j] * of_state(n, d, 2, j, h) : of_state(n, d, 2, j, scaled);
        next[j] = (1 - z[j]) * tanh(of_input(n, d, 2, j, t, b) + recurrent) + z[j] * h[j];
    }
    memcpy(h, next, (size_t)n->hidden * sizeof *h);
}

static void rnn_step(const naive *n, int d, int64_t t, int64_t b, double *h)
{
    double next[16];
    for (int64_t j = 0; j < n->hidden; j++) next[j] = tanh(of_input(n, d, 0, j, t, b) + of_state(n, d, 0, j, h));
    memcpy(h, next, (size_t)n->hidden * sizeof *h);
}

static void expect(const kernel_case *c, const mp_array *a, int64_t at, double value)
{
    if (!(fabs(kernel_get(a, at) - value) <= 2e-6))
        fail_msg("%s(%s)(%s): element %lld is %.9g and should be %.9g", c->kind, c->inputs, c->attributes, (long long)at,
                 kernel_get(a, at), value);
}

static void check_sequence(const kernel_case *c, const naive *n, int d, int64_t b)
{
    const mp_operands *x = n->x;
    const bool back = d == 1 || n->reverse;
    const int64_t state = (n->batch_first ? b * n->directions + d : d * n->batch + b) * n->hidden;
    const int64_t length = x->n_in > 4 && x->in[4].dtype ? (int64_t)in(n, 4, b) : n->steps;
    double h[16], cell[16];
    for (int64_t j = 0; j < n->hidden; j++) {
        h[j] = in(n, 5, state + j);
        cell[j] = in(n, 6, state + j);
    }
    for (int64_t k = 0; k < n->steps; k++) {
        const int64_t t = back ? n->steps - 1 - k : k;
        const bool ended = t >= length;
        if (!ended && n->gates == 4) lstm_step(n, d, t, b, h, cell);
        if (!ended && n->gates == 3) gru_step(n, d, t, b, h);
        if (!ended && n->gates == 1) rnn_step(n, d, t, b, h);
        const int64_t at = n->batch_first ? ((b * n->steps + t) * n->directions + d) * n->hidden
                                          : ((t * n->directions + d) * n->batch + b) * n->hidden;
        for (int64_t j = 0; x->out[0].dtype && j < n->hidden; j++) expect(c, &x->out[0], at + j, ended ? 0 : h[j]);
    }
    for (int64_t j = 0; j < n->hidden && x->n_out > 1; j++) expect(c, &x->out[1], state + j, h[j]);
    for (int64_t j = 0; j < n->hidden && x->n_out > 2; j++) expect(c, &x->out[2], state + j, cell[j]);
}

/* Compares all outputs in training and in evaluation, where no values are saved for backward. */
static void check_values(const kernel_case *c)
{
    for (unsigned flags = 0; flags <= KERNEL_BACKWARD; flags += KERNEL_BACKWARD) {
        kernel_run *r = kernel_begin(c, flags ? MP_MODE_TRAIN : MP_MODE_EVALUATE, flags);
        kernel_forward(r);
        const mp_recurrent s = mp_recurrent_read(r->model, r->forward.op);
        const naive n = {s.n_steps,
                         s.batch,
                         s.input,
                         s.hidden,
                         s.gates,
                         s.n_directions,
                         .reverse = !strcmp(mp_operator_text(r->forward.op, "direction", ""), "reverse"),
                         .before_reset = mp_operator_int(r->forward.op, "linear_before_reset", 0) != 0,
                         .batch_first = s.batch_first,
                         .x = &r->forward};
        for (int d = 0; d < s.n_directions; d++)
            for (int64_t b = 0; b < s.batch; b++) check_sequence(c, &n, d, b);
        kernel_end(r);
    }
}

#define BOTH "direction=bidirectional"
static const kernel_case cases[] = {
    {"LSTM", 14, "float32[5,2,2] " LSTM_WEIGHTS, "", 3, 0, 0, 0, 0, 0},
    {"LSTM", 14, "float32[5,2,2] " LSTM_WEIGHTS " float32[1,24] - float32[1,2,3] float32[1,2,3] float32[1,9]", "", 3, 0, 0, 0,
     0, 0},
    {"LSTM", 14, "float32[5,2,2] " LSTM_WEIGHTS " float32[1,24] int32[2]={5,3} float32[1,2,3] float32[1,2,3]", "", 3, 0, 0,
     0x6f, 0, 0},
    {"LSTM", 14, "float32[5,2,2] " LSTM_WEIGHTS " float32[1,24] int32[2]={2,5} float32[1,2,3] float32[1,2,3] float32[1,9]",
     "direction=reverse", 3, 0, 0, 0xef, 0, 0},
    {"LSTM", 14, "float32[5,2,2] float32[2,12,2] float32[2,12,3] float32[2,24] - float32[2,2,3] float32[2,2,3] float32[2,9]",
     BOTH, 3, 0, 0, 0, 0, 0},
    {"LSTM", 14, "float32[2,5,2] float32[2,12,2] float32[2,12,3] float32[2,24] - float32[2,2,3] float32[2,2,3]",
     BOTH " layout=1", 3, 0, 0, 0, 0, 0},
    {"GRU", 14, "float32[5,2,2] " GRU_WEIGHTS, "", 2, 0, 0, 0, 0, 0},
    {"GRU", 14, "float32[5,2,2] " GRU_WEIGHTS " float32[1,18] - float32[1,2,3]", "linear_before_reset=1", 2, 0, 0, 0, 0, 0},
    {"GRU", 14, "float32[5,2,2] " GRU_WEIGHTS " float32[1,18] int32[2]={1,4} float32[1,2,3]", "direction=reverse", 2, 0, 0,
     0x2f, 0, 0},
    {"GRU", 14, "float32[5,2,2] float32[2,9,2] float32[2,9,3] float32[2,18] int32[2]={4,5} float32[2,2,3]",
     BOTH " linear_before_reset=1", 2, 0, 0, 0x2f, 0, 0},
    {"GRU", 14, "float32[2,5,2] float32[2,9,2] float32[2,9,3] float32[2,18]", BOTH " layout=1", 2, 0, 0, 0, 0, 0},
    {"RNN", 14, "float32[5,2,2] float32[1,3,2] float32[1,3,3]", "", 2, 0, 0, 0, 0, 0},
    {"RNN", 14, "float32[5,2,2] float32[2,3,2] float32[2,3,3] float32[2,6] int32[2]={4,2} float32[2,2,3]", BOTH, 2, 0, 0, 0x2f,
     0, 0},
    {"RNN", 14, "float32[2,5,2] float32[1,3,2] float32[1,3,3] float32[1,6]", "direction=reverse layout=1", 2, 0, 0, 0, 0, 0},
};

TEST(values_are_those_of_the_definition)
{
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) check_values(&cases[k]);
}

TEST(gradients_are_those_of_differences)
{
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) kernel_check_gradient(&cases[k]);
}

/* 90 steps with a batch of 3; a block has at most 86 steps. */
TEST(long_sequences_are_cut_into_blocks)
{
    static const kernel_case longer[] = {
        {"LSTM", 14, "float32[90,3,2] float32[2,12,2] float32[2,12,3] float32[2,24] int32[3]={90,60,1}", BOTH, 3, 0, 0, 0x0e, 0,
         0},
        {"GRU", 14, "float32[90,3,2] float32[2,9,2] float32[2,9,3] float32[2,18]", BOTH, 2, 0, 0, 0x0e, 0, 0},
        {"GRU", 14, "float32[90,3,2] float32[1,9,2] float32[1,9,3] float32[1,18]", "linear_before_reset=1", 2, 0, 0, 0x0e, 0,
         0},
        {"RNN", 14, "float32[90,3,2] float32[2,3,2] float32[2,3,3] float32[2,6]", BOTH, 2, 0, 0, 0x0e, 0, 0},
    };
    for (size_t k = 0; k < sizeof longer / sizeof *longer; k++) {
        check_values(&longer[k]);
        kernel_check_gradient(&longer[k]);
    }
}

/* If only the last states are read, there is no Y, and the reserve holds the states. */
TEST(states_are_kept_where_there_is_no_output)
{
    static const kernel_case quiet[] = {
        {"LSTM", 14, "float32[5,2,2] " LSTM_WEIGHTS " float32[1,24] - float32[1,2,3] float32[1,2,3]", "", -3, 0, 0, 0, 0, 0},
        {"GRU", 14, "float32[5,2,2] " GRU_WEIGHTS " float32[1,18]", "direction=reverse", -2, 0, 0, 0, 0, 0},
        {"RNN", 14, "float32[5,2,2] float32[1,3,2] float32[1,3,3] float32[1,6]", "", -2, 0, 0, 0, 0, 0},
    };
    for (size_t k = 0; k < sizeof quiet / sizeof *quiet; k++) {
        check_values(&quiet[k]);
        kernel_check_gradient(&quiet[k]);
    }
}

/* Activations by name, per direction. Networks commonly use RNN with Relu. */
TEST(activations_are_chosen_by_name)
{
    kernel_case relu = {"RNN",
                        14,
                        "float32[1,1,1]={-2} float32[2,1,1]={1,-1} float32[2,1,1]={1,1}",
                        BOTH " activations=Relu,Sigmoid",
                        1,
                        0,
                        0,
                        0,
                        0,
                        0};
    kernel_check_values(&relu, MP_MODE_TRAIN, 0, (double[]){0, sigmoid(2)}, 2, 1e-6);
    kernel_case lstm = {"LSTM", 14, "float32[5,2,2] " LSTM_WEIGHTS, "activations=Tanh,Sigmoid,Sigmoid", 3, 0, 0, 0, 0, 0};
    kernel_check_gradient(&lstm);
}

static void check_refused(const char *kind, const char *inputs, const char *attributes, const char *sentence)
{
    const kernel_case c = {kind, 14, inputs, attributes, 1, 0, 0, 0, 0, 0};
    kernel_check_refused(&c, sentence);
}

TEST(what_no_cell_computes_is_refused_by_name)
{
    check_refused("LSTM", "float32[5,2,2] " LSTM_WEIGHTS, "clip=1.5", "clipping its gates ('clip') is not supported here");
    check_refused("LSTM", "float32[5,2,2] " LSTM_WEIGHTS, "input_forget=1",
                  "coupling input and forget gate ('input_forget') is not supported here");
    check_refused("GRU", "float32[5,2,2] " GRU_WEIGHTS, "activations=HardSigmoid,Tanh",
                  "an activation other than Sigmoid, Tanh and Relu is not supported here");
}
