// Models that are put on a grid, as compressed-tensors has it: what is written is read again to the bit.
#include "hub/grid_files.h"

#include "harness/errors.h"
#include "hub/copy_weights.h"
#include "hub/folders.h"
#include "hub/model_tensors.h"
#include "io/folder_commit.h"
#include "nn/fake_quantize.h"
#include "tensor/dtype.h"

namespace hone::test {
namespace {

class GridFiles : public Folders {
 protected:
  // A folder of the model, on a grid; with config.json.
  fs::path on_grid(const FakeQuantized& grids, std::optional<at::ScalarType> type) {
    const auto model = small_model();
    hub::save_model_folder(root_ / "m", *model, hub::model_files(*model, "", nullptr), {.replace = true});
    nn::fake_quantize(*model, grids);
    hub::CopyWeights how{.type = type};
    model->each_weight([&](const std::string& name, Weight& weight) {
      if (weight.fake_quantized().weight != Grid::none) how.grids[name] = weight.fake_quantized();
    });
    EXPECT_EQ(how.grids.size(), 14u);
    const fs::path out = root_ / ("out" + std::to_string(count_++));
    io::FolderCommit commit = io::commit_to(out, false);
    const hub::CopiedWeights copied = hub::copy_weights(commit, root_ / "m", how);
    EXPECT_EQ(copied.held, std::set<std::string>{hub::name_of(grids)});
    nlohmann::ordered_json config = nlohmann::ordered_json::parse(read_text(root_ / "m" / "config.json"));
    config["quantization_config"] = hub::grid_config(grids, {"lm_head"});
    commit.add_file("config.json", config.dump(2));
    commit.commit({});
    return out;
  }
  int count_ = 0;
};

TEST_F(GridFiles, AreReadToTheBitAsTheyWereTrained) {
  const std::vector<FakeQuantized> all = {{Grid::int4, Grid::none, 2},
                                          {Grid::int4, Grid::int8, 0},
                                          {Grid::int8, Grid::int8, 2},
                                          {Grid::int8, Grid::none, 0},
                                          {Grid::float8, Grid::float8, 0}};
  for (const FakeQuantized& grids : all)
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      SCOPED_TRACE(hub::name_of(grids) + toString(type));
      const fs::path folder = on_grid(grids, type);
      const Precision precision = type == at::kFloat ? Precision::fp32 : Precision::bf16;
      const auto back = load_model(folder.string(), precision), trained = load_model((root_ / "m").string(), precision);
      std::map<std::string, const Weight*> before;
      trained->each_weight([&](const std::string& name, const Weight& weight) { before[name] = &weight; });
      std::set<std::string> rounded;
      nn::each_linear_weight_in_blocks(*back, [&](const std::string& name, Weight&) { rounded.insert(name); });
      back->each_weight([&](const std::string& name, const Weight& weight) {
        Tensor expected = before.at(name)->use().detach();
        if (rounded.contains(name)) expected = ops::fake_quantized(expected, grids.weight, grids.group_size, nullptr);
        EXPECT_TRUE(at::equal(weight.use().detach(), expected)) << name;
      });
    }
}

TEST_F(GridFiles, ConfigSaysWhatInputsAre) {
  const auto group = [](const FakeQuantized& grids) {
    return hub::grid_config(grids, {"lm_head"})["config_groups"]["group_0"];
  };
  const auto int4 = group({Grid::int4, Grid::int8, 32});
  EXPECT_EQ(int4["weights"]["num_bits"], 4);
  EXPECT_EQ(int4["weights"]["strategy"], "group");
  EXPECT_EQ(int4["weights"]["group_size"], 32);
  EXPECT_EQ(int4["input_activations"]["symmetric"], false);
  EXPECT_EQ(int4["input_activations"]["strategy"], "token");
  EXPECT_EQ(int4["input_activations"]["dynamic"], true);
  EXPECT_TRUE(group({Grid::int8, Grid::none, 0})["input_activations"].is_null());
  EXPECT_EQ(group({Grid::float8, Grid::float8, 0})["weights"]["type"], "float");
  EXPECT_EQ(hub::grid_config({Grid::float8, Grid::none, 0}, {})["format"], "float-quantized");
}

// Seven bits of a word's eighth code are beyond its sign; rows that no word fills are filled up.
TEST_F(GridFiles, WordsHoldEightCodes) {
  const Tensor codes = at::tensor({-8, 7, 0, 1, 2, 3, 4, 7, -1, -2}, at::kLong).to(at::kChar).view({1, 10});
  const auto made = hub::grid_tensors("m.weight", {Grid::int4, codes, at::ones({1, 1})});
  const Tensor words = made.at("m.weight_packed");
  ASSERT_EQ(words.sizes(), (at::IntArrayRef{1, 2}));
  EXPECT_EQ(static_cast<std::uint32_t>(words[0][0].item<std::int32_t>()), 0xFCBA98F0u);
  EXPECT_EQ(static_cast<std::uint32_t>(words[0][1].item<std::int32_t>()), 0x00000067u);
  EXPECT_TRUE(at::equal(made.at("m.weight_shape"), at::tensor({1, 10}, at::kLong)));
}

}  // namespace
}  // namespace hone::test
