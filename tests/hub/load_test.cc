// Weights from files: casts, names, shapes, and every way in which they can be wrong.
#include "hub/folders.h"

#include <gmock/gmock.h>

#include "hub/save.h"

namespace hone::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Load : public Folders {
 protected:
  std::string problem(const std::vector<Entry>& entries, std::int64_t cut = 0, bool tied = false) {
    write_safetensors(root_ / "model.safetensors", entries, cut);
    const auto model = small_model(tied);
    return error_of([&] { load_weights(*model, root_, Precision::fp32); });
  }
  std::unique_ptr<Model> model_ = small_model();
  std::vector<Entry> entries_ = entries_of(*model_);
};

TEST_F(Load, TakesWhatFits) { EXPECT_EQ(problem(entries_), "no error"); }

TEST_F(Load, CastsHalvesAndDoubles) {
  for (const auto& [dtype, size] : {std::pair{"BF16", 2}, {"F16", 2}, {"F64", 8}})
    EXPECT_EQ(problem(entries_of(*model_, dtype, size)), "no error");
}

// A bf16 run's weights that were saved in bf16 are read as they are; its masters are made of them. What the folder
// lacks is made in fp32, as the masters are.
TEST_F(Load, WhatIsFreshInABf16RunIsNotRounded) {
  std::vector<Entry> some = entries_of(*model_, "BF16", 2);
  const std::string fresh = some.back().name;
  some.pop_back();
  write_safetensors(root_ / "model.safetensors", some);
  const auto model = small_model();
  load_weights(*model, root_, Precision::bf16, FreshWeights{.seed = 3, .any = true});
  model->each_weight([&](const std::string& name, Weight& weight) {
    EXPECT_EQ(weight.use().scalar_type(), name == fresh ? at::kFloat : at::kBFloat16) << name;
  });
}

TEST_F(Load, AModelThatIsNotToLearnUsesTheFile) {
  hub::save_model_folder(root_ / "saved", *model_, hub::model_files(*model_, "", nullptr), {});
  const std::string folder = (root_ / "saved").string();
  const auto learns = load_model(find_model(folder), Precision::fp32),
             frozen = load_frozen_model(find_model(folder), Precision::fp32);
  std::map<std::string, Tensor> expected;
  learns->each_weight([&](const std::string& name, Weight& weight) {
    EXPECT_TRUE(weight.trainable()) << name;
    expected[name] = weight.use();
  });
  frozen->each_weight([&](const std::string& name, Weight& weight) {
    EXPECT_FALSE(weight.trainable()) << name;
    EXPECT_TRUE(at::equal(weight.use(), expected.at(name))) << name;
  });
  EXPECT_EQ(expected.size(), entries_.size());
}

TEST_F(Load, NamesWhatIsMissing) {
  entries_.erase(entries_.begin() + 1);
  EXPECT_THAT(problem(entries_), AllOf(HasSubstr("model.layers.0.self_attn.q_proj.weight"), HasSubstr("missing"),
                                       HasSubstr(root_.string())));
}
TEST_F(Load, NamesTenOfTheManyMissingAndCountsTheRest) {
  entries_.resize(1);
  EXPECT_THAT(problem(entries_), AllOf(HasSubstr("20 tensors are missing"), HasSubstr("and 10 more")));
}
TEST_F(Load, NamesWhatIsNotTheModels) {
  entries_.push_back({"model.layers.2.mlp.up_proj.weight", "F32", {1}, 4});
  EXPECT_THAT(problem(entries_), AllOf(HasSubstr("model.layers.2.mlp.up_proj.weight"), HasSubstr("not the model's")));
}
// As AutoModel saves it. Of a model with its own head that is not there; one for something else is none.
TEST_F(Load, TakesABodyAlone) {
  for (Entry& e : entries_)
    if (e.name.starts_with("model.")) e.name = e.name.substr(6);
  EXPECT_EQ(problem(entries_), "no error");
  entries_.pop_back();
  EXPECT_EQ(problem(entries_, 0, /*tied=*/true), "no error");
  EXPECT_THAT(problem(entries_), AllOf(HasSubstr("a tensor is missing: \"lm_head.weight\""),
                                       HasSubstr("config.json and the weights must be of the same model")));
  entries_.push_back({"score.weight", "F32", {2, 8}, 64});
  write_text(root_ / "config.json", R"({"architectures": ["LlamaForSequenceClassification"]})");
  EXPECT_THAT(problem(entries_),
              HasSubstr("it is of a LlamaForSequenceClassification; it is read as a LlamaForCausalLM"));
  write_text(root_ / "config.json", R"({"architectures": ["GemmaForCausalLM"]})");
  EXPECT_THAT(problem(entries_), HasSubstr("of a GemmaForCausalLM, which hone has not; it is read as a Llama"));
}
TEST_F(Load, SaysGotAndExpectedShape) {
  entries_[1].shape = {4, 16};
  EXPECT_THAT(problem(entries_),
              AllOf(HasSubstr("model.layers.0.self_attn.q_proj.weight"),
                    HasSubstr("got shape [4, 16], expected [8, 8]"), HasSubstr("model.safetensors")));
}
TEST_F(Load, RefusesIntegers) {
  entries_[1].dtype = "I32";
  EXPECT_THAT(problem(entries_), AllOf(HasSubstr("q_proj"), HasSubstr("got dtype I32")));
}
TEST_F(Load, RefusesATruncatedFile) { EXPECT_THAT(problem(entries_, 4), HasSubstr("model.safetensors")); }
TEST_F(Load, IgnoresOldRotaryBuffers) {
  entries_.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {2}, 8});
  EXPECT_EQ(problem(entries_), "no error");
}
TEST_F(Load, ATiedHeadMayBeThereOrNot) {
  EXPECT_EQ(problem(entries_, 0, /*tied=*/true), "no error");
  entries_.pop_back();
  EXPECT_EQ(problem(entries_, 0, /*tied=*/true), "no error");
  EXPECT_THAT(problem(entries_, 0, /*tied=*/false), HasSubstr("lm_head.weight"));
}
// Left out it would be lost, and transformers takes it. Of two types values are compared, not bits.
TEST_F(Load, ATiedHeadWithOtherValuesIsAnError) {
  const auto with_head = [&](std::size_t from_end, const std::string& dtype = "F32", std::int64_t size = 4) {
    std::vector<Entry> entries = entries_;
    entries.back().dtype = dtype, entries.back().bytes = entries.back().bytes / 4 * size;
    write_safetensors(root_ / "model.safetensors", entries);
    std::string bytes = read_text(root_ / "model.safetensors");
    if (from_end > 0) bytes[bytes.size() - from_end] = 0x3f;
    write_text(root_ / "model.safetensors", bytes);
    const auto model = small_model(/*tied=*/true);
    return error_of([&] { load_weights(*model, root_, Precision::fp32); });
  };
  ASSERT_EQ(entries_.back().name, "lm_head.weight");
  EXPECT_EQ(with_head(0), "no error");
  EXPECT_EQ(with_head(0, "BF16", 2), "no error");
  for (const std::string& problem : {with_head(1), with_head(12 * 8 * 4), with_head(1, "BF16", 2)})
    EXPECT_THAT(problem, AllOf(HasSubstr("model.safetensors: lm_head.weight: differs from model.embed_tokens.weight"),
                               HasSubstr("\"tie_word_embeddings\": false in config.json")));
  const auto untied = small_model();
  EXPECT_EQ(error_of([&] { load_weights(*untied, root_, Precision::fp32); }), "no error");
}
TEST_F(Load, ATiedHeadInAnotherShardIsComparedToo) {
  const auto head = entries_.end() - 1;
  write_safetensors(root_ / "a.safetensors", {entries_.begin(), head});
  write_safetensors(root_ / "b.safetensors", {head, entries_.end()});
  nlohmann::json map;
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry)
    map[entry->name] = entry == head ? "b.safetensors" : "a.safetensors";
  write_text(root_ / "model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
  const auto loaded = [&] {
    const auto model = small_model(/*tied=*/true);
    return error_of([&] { load_weights(*model, root_, Precision::fp32); });
  };
  EXPECT_EQ(loaded(), "no error");
  std::string bytes = read_text(root_ / "b.safetensors");
  bytes.back() = 0x3f;
  write_text(root_ / "b.safetensors", bytes);
  EXPECT_THAT(loaded(), HasSubstr("b.safetensors: lm_head.weight: differs from model.embed_tokens.weight"));
}
// GPT-2 ties by default, and files of its body alone have no prefix.
TEST_F(Load, ATiedHeadOfGpt2IsComparedWithAndWithoutThePrefix) {
  for (const std::string prefix : {"transformer.", ""}) {
    Problems problems;
    const auto model = build_model(
        config::parse_json(R"({"model_type": "gpt2", "vocab_size": 12, "n_embd": 8, "n_layer": 1, "n_head": 2,
                               "n_positions": 12})",
                           "config.json", problems),
        "config.json");
    std::vector<Entry> entries = entries_of(*model);
    for (Entry& entry : entries)
      if (entry.name.starts_with("transformer.")) entry.name = prefix + entry.name.substr(12);
    entries.push_back({"lm_head.weight", "F32", {12, 8}, 12 * 8 * 4});
    write_safetensors(root_ / "model.safetensors", entries);
    EXPECT_EQ(error_of([&] { load_weights(*model, root_, Precision::fp32); }), "no error") << prefix;
    std::string bytes = read_text(root_ / "model.safetensors");
    bytes.back() = 0x3f;
    write_text(root_ / "model.safetensors", bytes);
    EXPECT_THAT(error_of([&] { load_weights(*model, root_, Precision::fp32); }),
                HasSubstr("differs from " + prefix + "wte.weight"));
  }
}
TEST_F(Load, RefusesAPickle) {
  write_text(root_ / "pytorch_model.bin", "PK");
  EXPECT_THAT(error_of([&] { load_weights(*model_, root_, Precision::fp32); }), HasSubstr("safetensors"));
}

TEST(Init, IsAFunctionOfSeedAndName) {
  const auto values = [](std::uint64_t seed, Precision precision) {
    const auto model = small_model(false, precision);
    init_weights(*model, seed, precision);
    std::map<std::string, Tensor> all;
    model->each_weight([&](const std::string& name, Weight& w) { all[name] = w.use().detach(); });
    return all;
  };
  const auto one = values(1, Precision::fp32), again = values(1, Precision::fp32), two = values(2, Precision::fp32),
             low = values(1, Precision::bf16);
  const std::string q = "model.layers.0.self_attn.q_proj.weight";
  for (const auto& [name, value] : one) EXPECT_TRUE(at::equal(value, again.at(name))) << name;
  EXPECT_FALSE(at::equal(one.at(q), two.at(q)));
  EXPECT_FALSE(at::equal(one.at(q), one.at("model.layers.1.self_attn.q_proj.weight")));
  EXPECT_TRUE(at::equal(one.at(q).to(at::kBFloat16), low.at(q)));
  EXPECT_TRUE(at::equal(one.at("model.norm.weight"), at::ones({8})));
  EXPECT_LT(one.at(q).abs().max().item<float>(), 0.2F);
}

TEST_F(Load, FillsPartsWithWhatTheWholeHas) {
  const std::string name = "model.layers.0.self_attn.q_proj.weight";
  const auto whole = small_model();
  hub::save_model_folder(root_ / "whole", *whole, hub::model_files(*whole, "", nullptr), {});
  for (const bool from_file : {false, true}) {
    Problems problems;
    const auto part = build_model(config::parse_json(config_text(), "config.json", problems), "config.json");
    part->each_weight([&](const std::string& own, Weight& weight) {
      const std::vector<std::int64_t> shape = weight.shape();
      if (own == name) weight.set_layout({shape, {shape[0] / 2, shape[1]}, {shape[0] / 2, 0}, {"fsdp", ""}});
    });
    from_file ? load_weights(*part, root_ / "whole", Precision::fp32) : init_weights(*part, 7, Precision::fp32);
    std::map<std::string, Tensor> all;
    whole->each_weight([&](const std::string& own, const Weight& weight) { all[own] = weight.use(); });
    part->each_weight([&](const std::string& own, const Weight& weight) {
      EXPECT_TRUE(at::equal(weight.use(), weight.part_of(all.at(own)))) << own;
      EXPECT_EQ(weight.layout().whole(), own != name) << own;
    });
  }
}

TEST(Init, RefusesAModelThatNoMemoryHolds) {
  Problems problems;
  const auto model =
      build_model(config::parse_json(R"({"model_type": "llama", "vocab_size": 2000000, "hidden_size": 524288,
    "intermediate_size": 1048576, "num_hidden_layers": 1, "num_attention_heads": 4096})",
                                     "config.json", problems),
                  "config.json");
  EXPECT_THAT(error_of([&] { init_weights(*model, 1, Precision::fp32); }, ErrorKind::config), HasSubstr("GB"));
}

}  // namespace
}  // namespace hone::test
