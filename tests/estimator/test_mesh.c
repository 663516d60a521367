/* test_mesh.c - meshes as text, their groups of ranks checked against an enumeration of all ranks, and refused meshes. */
#include "memplan/ranks/mesh.h"
#include "tests/cases/test.h"

static mp_mesh mesh_of(const char *text)
{
    mp_mesh mesh;
    mp_error err = {0};
    if (mp_mesh_read(text, &mesh, &err) != MP_OK) fail_msg("%s: %s", text, err.message);
    return mesh;
}

TEST(meshes_are_read_and_written)
{
    static const struct {
        const char *text, *written;
        int64_t devices;
        int zero;
        bool sequence;
    } meshes[] = {{"dp=4,tp=8,pp=2", "dp=4,tp=8,pp=2", 64, 0, true},
                  {"pp=2,tp=8,dp=4", "dp=4,tp=8,pp=2", 64, 0, true},
                  {"dp=1", "dp=1", 1, 0, true},
                  {"tp=1,sp=0", "dp=1", 1, 0, false},
                  {"tp=4,sp=0", "tp=4,sp=0", 4, 0, false},
                  {"tp=4,sp=1", "tp=4", 4, 0, true},
                  {"data=1,tp=4", "tp=4,data=1", 4, 0, true},
                  {"tp=4,data=0,pp=2", "tp=4,pp=2", 8, 0, true},
                  {"scatter=1,pp=2,tp=4,sp=0", "tp=4,sp=0,pp=2,scatter=1", 8, 0, false},
                  {"tp=4,sp=0,pp=2,scatter=0", "tp=4,sp=0,pp=2", 8, 0, false},
                  {"shard=8", "shard=8", 8, 3, true},
                  {"zero=1,shard=8", "shard=8,zero=1", 8, 1, true},
                  {"shard=8,zero=2,dp=2", "dp=2,shard=8,zero=2", 16, 2, true},
                  {"shard=8,zero=3", "shard=8", 8, 3, true},
                  {"dp=4,shard=2,ep=8", "dp=4,shard=2,ep=8", 8, 3, true}, /* expert ranks are within dp and shard */
                  {"dp=16,shard=8,tp=8,pp=4", "dp=16,shard=8,tp=8,pp=4", 4096, 3, true}};
    for (size_t k = 0; k < sizeof meshes / sizeof *meshes; k++) {
        const mp_mesh mesh = mesh_of(meshes[k].text);
        const mp_mesh_text text = mp_mesh_write(&mesh);
        if (strcmp(text.text, meshes[k].written) != 0) fail_msg("%s is written %s", meshes[k].text, text.text);
        if (mp_mesh_devices(&mesh) != meshes[k].devices || mesh.zero != meshes[k].zero || mesh.sequence != meshes[k].sequence)
            fail_msg("%s: %" PRId64 " devices, zero=%d", meshes[k].text, mp_mesh_devices(&mesh), mesh.zero);
        const mp_mesh again = mesh_of(text.text);
        assert_memory_equal(again.size, mesh.size, sizeof mesh.size);
        assert_int_equal(again.zero, mesh.zero);
        assert_int_equal(again.data, mesh.data);
        assert_int_equal(mesh.data, strstr(meshes[k].text, "data=1") != NULL);
        assert_int_equal(mp_mesh_scatters(&mesh), strstr(meshes[k].text, "scatter=1") != NULL);
        assert_int_equal(mp_mesh_scatters(&again), mp_mesh_scatters(&mesh));
    }
}

/* Ranks are numbered with tp innermost, then shard, dp, pp. Ranks that differ in one dimension only form a group of n, a stride
 * apart. */
TEST(groups_are_the_ranks_that_differ_in_one_dimension)
{
    enum { TP = 2, SHARD = 3, DP = 4, PP = 5 };
    static const mp_dim order[] = {MP_DIM_TP, MP_DIM_SHARD, MP_DIM_DP, MP_DIM_PP};
    static const int64_t sizes[] = {TP, SHARD, DP, PP};
    const mp_mesh mesh = mesh_of("tp=2,shard=3,dp=4,pp=5");
    assert_int_equal(mp_mesh_devices(&mesh), TP * SHARD * DP * PP);
    for (int d = 0; d < 4; d++) {
        const mp_rank_group group = mp_mesh_group(&mesh, order[d]);
        int64_t found = 0, last = -1;
        assert_int_equal(group.n, sizes[d]);
        for (int64_t rank = 0; rank < TP * SHARD * DP * PP; rank++) { /* the group of rank 0: its other coordinates are 0 */
            const int64_t at[] = {rank % TP, rank / TP % SHARD, rank / (TP * SHARD) % DP, rank / (TP * SHARD * DP)};
            bool is_in = true;
            for (int e = 0; e < 4; e++) is_in &= e == d || at[e] == 0;
            if (!is_in) continue;
            if (last >= 0) assert_int_equal(rank - last, group.stride);
            last = rank;
            found++;
        }
        assert_int_equal(found, group.n);
    }
    /* ep adds no devices: expert ranks are neighbours within shard and dp */
    const mp_mesh experts = mesh_of("tp=2,shard=4,dp=2,ep=8");
    assert_int_equal(mp_mesh_devices(&experts), 16);
    assert_int_equal(mp_mesh_group(&experts, MP_DIM_EP).n, 8);
    assert_int_equal(mp_mesh_group(&experts, MP_DIM_EP).stride, 2);
    assert_int_equal(mp_mesh_group(&experts, MP_DIM_DP).stride, 8);
}

TEST(what_is_no_mesh_is_refused)
{
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"", "'' in the mesh '' is not one of dp=N, shard=N, tp=N, pp=N, ep=N, zero=1-3, sp=0-1, data=0-1, scatter=0-1"},
        {"dp", "'dp' in the mesh 'dp' is not one of"},
        {"cp=2", "'cp=2' in the mesh 'cp=2' is not one of"},
        {"dp=2,", "'' in the mesh 'dp=2,' is not one of"},
        {"dp=2,,tp=2", "is not one of"},
        {"a_name_longer_than_any_dimension_has=2", "is not one of"},
        {"dp,tp=2", "'dp' in the mesh 'dp,tp=2' is not one of"},
        {"dp=2,tp=2,dp=3", "the mesh 'dp=2,tp=2,dp=3' names 'dp' twice"},
        {"sp=0,sp=1", "names 'sp' twice"},
        {"dp=", "'dp=' in the mesh 'dp=' has an invalid value; sizes need 1 or more, zero 1 to 3, sp, data and scatter 0 or 1"},
        {"dp=0", "has an invalid value"},
        {"dp=-2", "has an invalid value"},
        {"dp=2x", "'dp=2x' in the mesh 'dp=2x' has an invalid value"},
        {"dp=2.5", "has an invalid value"},
        {"dp=99999999999999999999", "has an invalid value"},
        {"shard=2,zero=4", "'zero=4' in the mesh 'shard=2,zero=4' has an invalid value"},
        {"shard=2,zero=0", "has an invalid value"},
        {"tp=2,sp=2", "has an invalid value"},
        {"tp=2,data=2", "has an invalid value"},
        {"tp=2,sp=0,pp=2,scatter=2", "has an invalid value"},
        {"tp=2,pp=2,scatter=1", "only with tp and pp of 2 or more and sp=0 do stages send the same tensor from several ranks"},
        {"tp=2,sp=0,scatter=1", "omit scatter"},
        {"sp=0,pp=2,scatter=1", "omit scatter"},
        {"tp=2,sp=0,data=1,pp=2,scatter=1", "omit scatter"},
        {"dp=2,data=1", "the mesh 'dp=2,data=1' has data=1, which needs tp=2 or more; add tp=N or omit data"},
        {"zero=1", "the mesh 'zero=1' has zero, which needs shard=2 or more; add shard=N or omit zero"},
        {"shard=1,zero=3", "which needs shard=2 or more"},
        {"dp=4,ep=3", "the mesh 'dp=4,ep=3' has ep=3, which does not divide dp times shard; choose a divisor"},
        {"tp=8,ep=2", "does not divide dp times shard"},
        {"dp=4294967296,tp=4294967296", "the mesh 'dp=4294967296,tp=4294967296' has more devices than can be counted"}};
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        mp_mesh mesh = {.zero = 7};
        mp_error err = {0};
        assert_int_equal(mp_mesh_read(wrong[k].text, &mesh, &err), MP_INVALID);
        if (!strstr(err.message, wrong[k].message)) fail_msg("'%s': %s", wrong[k].text, err.message);
        assert_int_equal(mesh.zero, 7); /* the output is unchanged */
    }
}

TEST(dimensions_have_names)
{
    for (int d = 0; d < MP_N_DIMS; d++) assert_int_equal(mp_dim_find(mp_dim_name((mp_dim)d)), d);
    assert_int_equal(mp_dim_find("cp"), -1);
    assert_string_equal(mp_dim_name(MP_DIM_SHARD), "shard");
}
