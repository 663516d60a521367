/* test_placement.c - boxes and wires of drawings: no wire crosses a box, and the wires connect exactly the writers and readers.
 */
#include "formats/drawings/placement.h"

#include "tests/cases/test.h"
#include "tests/oracles/random_dag.h"

enum { WIDTH = 100, HEIGHT = 40 };

/* Returns whether two horizontal or vertical segments share a point. */
static bool touch(const double *a, const double *b)
{
    return fmax(fmin(a[0], a[2]), fmin(b[0], b[2])) <= fmin(fmax(a[0], a[2]), fmax(b[0], b[2])) + 1e-6 &&
           fmax(fmin(a[1], a[3]), fmin(b[1], b[3])) <= fmin(fmax(a[1], a[3]), fmax(b[1], b[3])) + 1e-6;
}

static void check_placement(const mp_placement *p, size_t n, const mp_block_edge *edges, size_t n_edges, uint64_t seed)
{
    unsigned long long number = seed;
    for (size_t a = 0; a < n; a++) {
        assert_true(p->x[a] >= 0 && p->y[a] >= 0 && p->x[a] + WIDTH <= p->width + 1e-6 && p->y[a] + HEIGHT <= p->height + 1e-6);
        for (size_t b = 0; b < a; b++)
            if (fabs(p->x[a] - p->x[b]) < WIDTH + 1 && fabs(p->y[a] - p->y[b]) < HEIGHT + 1)
                fail_msg("seed %llu: boxes %zu and %zu overlap", number, a, b);
    }
    for (size_t a = 0; a < p->n_wires; a++) /* parts of a bundle have one number, which no other wire has */
        for (size_t b = 0; b < a && p->wires[a].skip >= 0; b++)
            assert_true((p->wires[a].skip == p->wires[b].skip) == (p->wires[a].bundle == p->wires[b].bundle));
    size_t n_parts = 0;
    struct part {
        int from;
        int net; /* connected wires: a bundle's wires, or one from box to box (then less than 0) */
        double xy[4];
        bool reached;
    } *parts = mp_alloc(4 * p->n_wires + 1, sizeof *parts);
    for (size_t k = 0; k < p->n_wires; k++)
        for (size_t i = 0; i + 1 < p->wires[k].n; i++) {
            struct part *part = &parts[n_parts++];
            part->from = p->wires[k].from;
            part->net = p->wires[k].bundle >= 0 ? p->wires[k].bundle : -1 - (int)k;
            memcpy(part->xy, p->wires[k].xy + 2 * i, sizeof part->xy);
            assert_true(fabs(part->xy[0] - part->xy[2]) < 1e-6 || fabs(part->xy[1] - part->xy[3]) < 1e-6);
            assert_true(part->xy[0] >= 0 && part->xy[0] <= p->width && part->xy[1] >= 0 && part->xy[1] <= p->height);
            for (size_t b = 0; b < n; b++) {
                const double inside[4] = {p->x[b] + 1, p->y[b] + 1, p->x[b] + WIDTH - 1, p->y[b] + HEIGHT - 1};
                if (touch(part->xy, inside)) fail_msg("seed %llu: a wire of box %d crosses box %zu", number, part->from, b);
            }
        }
    for (size_t a = 0; a < n_parts; a++) /* no two segments share a lane */
        for (size_t b = 0; b < a; b++) {
            bool upright = fabs(parts[a].xy[0] - parts[a].xy[2]) < 1e-6 && fabs(parts[b].xy[0] - parts[b].xy[2]) < 1e-6;
            bool related = parts[a].from == parts[b].from || parts[a].net == parts[b].net;
            if (related || !upright || !touch(parts[a].xy, parts[b].xy)) continue;
            double length = fmin(fabs(parts[a].xy[1] - parts[a].xy[3]), fabs(parts[b].xy[1] - parts[b].xy[3]));
            if (length > HEIGHT) fail_msg("seed %llu: boxes %d and %d share a lane", number, parts[a].from, parts[b].from);
        }
    for (size_t from = 0; from < n; from++) /* the drawn readers of a box are exactly its readers */
        for (size_t to = 0; to < n; to++) {
            bool is = false, said = false;
            for (size_t k = 0; k < n_edges; k++) is |= edges[k].from == (int)from && edges[k].to == (int)to;
            const double bottom[4] = {p->x[from], p->y[from] + HEIGHT, p->x[from] + WIDTH, p->y[from] + HEIGHT};
            const double top[4] = {p->x[to], p->y[to], p->x[to] + WIDTH, p->y[to]};
            const int columns =
                p->column[to] - p->column[from]; /* a tap of a bundle reads the boxes that joined it earlier, and above */
            const bool reached = columns > 0 || (columns == 0 && p->y[to] > p->y[from]);
            for (size_t start = 0; start < n_parts && reached; start++) {
                if (parts[start].from != (int)from || !touch(parts[start].xy, bottom)) continue;
                for (size_t end = 0; end < n_parts; end++)
                    said |= parts[end].net == parts[start].net && touch(parts[end].xy, top) &&
                            fabs(parts[end].xy[0] - parts[end].xy[2]) < 1e-6;
            }
            if (is != said)
                fail_msg("seed %llu: %zu is %s by %zu", number, from,
                         is ? "read, but not said so," : "not read, but said to be", to);
        }
    for (size_t k = 0; k < n_edges; k++) { /* from the bottom of one box over its net's wires to the top of the other */
        const mp_block_edge *e = &edges[k];
        const double start[4] = {p->x[e->from], p->y[e->from] + HEIGHT, p->x[e->from] + WIDTH, p->y[e->from] + HEIGHT};
        const double end[4] = {p->x[e->to], p->y[e->to], p->x[e->to] + WIDTH, p->y[e->to]};
        bool more = true, arrived = false;
        for (size_t a = 0; a < n_parts; a++) parts[a].reached = parts[a].from == e->from && touch(parts[a].xy, start);
        while (more) {
            more = false;
            for (size_t a = 0; a < n_parts; a++)
                for (size_t b = 0; parts[a].reached && b < n_parts; b++)
                    if (parts[b].net == parts[a].net && !parts[b].reached && touch(parts[a].xy, parts[b].xy))
                        parts[b].reached = more = true;
        }
        for (size_t a = 0; a < n_parts; a++) arrived |= parts[a].reached && touch(parts[a].xy, end);
        if (!arrived) fail_msg("seed %llu: no wire leads from %d to %d", number, e->from, e->to);
    }
    mp_free(parts);
}

TEST(wires_reach_their_readers_and_cross_no_box)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        mp_graph *g;
        mp_placement *p;
        assert_int_equal(random_dag(seed, 14, &g, NULL), MP_OK);
        mp_graph_blocks *b = NULL;
        assert_int_equal(mp_graph_blocks_build(g, 0, 100, &b, NULL), MP_OK);
        assert_int_equal(mp_placement_new(b->n, b->edges, b->n_edges, WIDTH, HEIGHT, 0.3 + (double)(seed % 20) / 4, &p, NULL),
                         MP_OK);
        check_placement(p, b->n, b->edges, b->n_edges, seed);
        mp_placement_free(p);
        mp_graph_blocks_free(b);
        mp_graph_free(g);
    }
}

/* A dense block: each box reads all previous ones. One wire is enough, or one between each two connected columns. */
TEST(concatenations_are_bundled)
{
    enum { N = 24 };
    for (int c = 0; c < 3; c++) {
        mp_block_edge edges[N * N];
        mp_placement *p;
        size_t n = 0, trunks = 0, taps = 0, joints = 0;
        for (int k = 0; k < N; k++)
            for (int to = k + 1; to < N; to++) edges[n++] = (mp_block_edge){k, to};
        const double aspect = (const double[]){0.1, 0.45, 1.2}[c];
        assert_int_equal(mp_placement_new(N, edges, n, WIDTH, HEIGHT, aspect, &p, NULL), MP_OK);
        assert_true(c == 0 ? p->n_columns == 1 : p->n_columns > 1);
        check_placement(p, N, edges, n, (uint64_t)c);
        for (size_t k = 0; k < p->n_wires; k++) {
            const mp_wire *wire = &p->wires[k];
            const bool level = fabs(wire->xy[1] - wire->xy[3]) < 1e-6;
            if (wire->bundle < 0) continue;
            assert_int_equal(wire->bundle, 0);
            trunks += wire->end == MP_WIRE_TRUNK && !level;
            joints += wire->end == MP_WIRE_JOINT;
            taps += wire->end == MP_WIRE_ARROW;
        }
        assert_int_equal(trunks, 2 * p->n_columns - 1);                    /* in each column, and between columns */
        assert_true(taps <= (size_t)(2 * N) && joints <= (size_t)(2 * N)); /* there are 276 edges */
        mp_placement_free(p);
    }
}

/* Two boxes with a common reader share a wire. If one has another reader below the other's joint, each has its own wire. */
TEST(what_would_lie_is_not_bundled)
{
    static const mp_block_edge both[] = {{0, 1}, {0, 3}, {1, 2}, {1, 4}, {2, 3}, {3, 4}, {4, 5}}; /* 0 -> 3, 1 -> 4 */
    static const mp_block_edge same[] = {{0, 1}, {0, 4}, {1, 2}, {1, 4}, {2, 3}, {3, 4}, {4, 5}}; /* 0 -> 4, 1 -> 4 */
    static const mp_block_edge more[] = {{0, 1}, {0, 4}, {0, 5}, {1, 2},
                                         {1, 4}, {2, 3}, {3, 4}, {4, 5}}; /* 5 reads 0, but not 1 */
    static const struct {
        const mp_block_edge *edges;
        size_t n, bundled;
    } cases[] = {{both, 7, 0}, {same, 7, 2}, {more, 8, 0}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        mp_placement *p;
        size_t joints = 0;
        assert_int_equal(mp_placement_new(6, cases[c].edges, cases[c].n, WIDTH, HEIGHT, 0.1, &p, NULL), MP_OK);
        check_placement(p, 6, cases[c].edges, cases[c].n, c);
        for (size_t k = 0; k < p->n_wires; k++) joints += p->wires[k].end == MP_WIRE_JOINT;
        assert_int_equal(joints, cases[c].bundled);
        mp_placement_free(p);
    }
}

TEST(wide_and_long_graphs_are_placed_too)
{
    enum { N = 120 };
    mp_block_edge edges[3 * N];
    mp_placement *p;
    size_t n = 0;
    for (int k = 1; k < N; k++) edges[n++] = (mp_block_edge){0, k}; /* a star */
    assert_int_equal(mp_placement_new(N, edges, n, WIDTH, HEIGHT, 1.5, &p, NULL), MP_OK);
    check_placement(p, N, edges, n, 0);
    mp_placement_free(p);
    n = 0;
    for (int k = 0; k + 1 < N; k++) { /* a ladder: each box also reads the first one and the one three before */
        edges[n++] = (mp_block_edge){k, k + 1};
        if (k + 3 < N) edges[n++] = (mp_block_edge){k, k + 3};
    }
    assert_int_equal(mp_placement_new(N, edges, n, WIDTH, HEIGHT, 1.5, &p, NULL), MP_OK);
    check_placement(p, N, edges, n, 1);
    assert_true(p->n_columns > 3 && p->width < 3 * p->height && p->height < 2 * p->width);
    mp_placement_free(p);
    assert_int_equal(mp_placement_new(N, NULL, 0, WIDTH, HEIGHT, 1.5, &p, NULL), MP_OK);
    check_placement(p, N, NULL, 0, 2);
    mp_placement_free(p);
}

/* A short network with its widest row first: a single column would leave half of the page empty. */
TEST(paper_is_not_left_white)
{
    const mp_block_edge edges[] = {{0, 2}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {6, 7}};
    mp_placement *p;
    assert_int_equal(mp_placement_new(8, edges, 7, WIDTH, HEIGHT, 1.45, &p, NULL), MP_OK);
    check_placement(p, 8, edges, 7, 0);
    assert_int_equal(p->n_columns, 2);
    mp_placement_free(p);
}
