// GGUF files against what llama.cpp's converter and llama-quantize make (tools/golden/golden_gguf.py).
#include <gmock/gmock.h>

#include <cmath>

#include "hub/folders.h"
#include "hub/gguf/blocks.h"
#include "hub/gguf/file_type.h"
#include "hub/gguf/pre_tokenizers.h"
#include "hub/gguf/vocabulary.h"
#include "hub/gguf/write.h"
#include "harness/files.h"
#include "io/gguf_reader.h"
#include "io/json.h"

namespace hone::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

nlohmann::json gguf_golden(const std::string& name) {
  return io::read_json_file("tests/golden/gguf/" + name, {std::uint64_t{1} << 24, 100, ErrorKind::data});
}

std::string type_name(std::uint32_t type) { return std::string(io::name_of(static_cast<io::GgufType>(type))); }

// The golden's folder as one file; with what its model says of itself.
ReadGguf exported(const fs::path& golden_folder, const std::string& type, const fs::path& file,
                  bool refuses = true) {
  const std::string config = (golden_folder / "config.json").string();
  const std::unique_ptr<Model> model = build_model(config::read_file(config), config);
  const auto weights = gguf::weights_in(golden_folder, *model);
  gguf::Plan plan = gguf::plan_file(*model, refuses);
  const gguf::FileType& file_type = *gguf::find_file_type(type);
  gguf::choose_types(plan, file_type, weights->stored());
  io::GgufKeys keys;
  keys.set("general.size_label", plan.size_label());
  keys.set("general.file_type", file_type.number);
  gguf::architecture_keys(keys, plan);
  std::vector<io::GgufTensor> tensors;
  for (const gguf::Planned& one : plan.tensors) tensors.push_back(one.tensor);
  io::GgufWriter writer(Env::process().open_folder(file.parent_path()).create(file.filename().string()), keys, tensors);
  gguf::write_tensors(writer, plan, *weights, {});
  writer.finish();
  return ReadGguf(file.string());
}

// Keys whose value in the converter's file is known to be wrong, or that llama.cpp does not read there.
bool is_left(const std::string& folder, const std::string& key) {
  if (key == "general.architecture" || key == "general.type" || key == "general.quantization_version") return true;
  if (folder == "experts/qwen3-moe" || folder == "decoders/gpt_neox" || folder == "decoders/gpt_neox-serial")
    return key == "general.file_type";  // the converter of GPT-NeoX leaves it out
  return false;
}

void expect_keys(const ReadGguf& read, const nlohmann::json& wanted, const std::string& folder) {
  for (const auto& [key, value] : wanted.items()) {
    if (is_left(folder, key)) continue;
    ASSERT_TRUE(read.keys.contains(key)) << key;
    const nlohmann::json& got = read.keys.at(key);
    if (value.is_number_float())
      EXPECT_EQ(got.get<float>(), value.get<float>()) << key;
    else
      EXPECT_EQ(got, value) << key;
  }
}

void expect_tensors(const ReadGguf& read, const nlohmann::json& wanted) {
  EXPECT_EQ(read.tensors.size(), wanted.size());
  for (const auto& [name, tensor] : wanted.items()) {
    ASSERT_TRUE(read.tensors.contains(name)) << name;
    const ReadGguf::Tensor& got = read.tensors.at(name);
    EXPECT_EQ(type_name(got.type), tensor[0]) << name;
    EXPECT_EQ(nlohmann::json(got.shape), tensor[1]) << name;
    std::int64_t count = 1;
    for (const std::int64_t size : got.shape) count *= size;
    EXPECT_EQ(fnv(read.bytes_of(name, io::gguf_bytes(static_cast<io::GgufType>(got.type), count))), tensor[2]) << name;
  }
}

class GgufModels : public Folders {};

TEST_F(GgufModels, AreWhatTheConverterMakes) {
  const nlohmann::json models = gguf_golden("families.json");
  for (const auto& [name, wanted] : models.items()) {
    SCOPED_TRACE(name);
    const std::size_t blank = name.find(' ');  // "models/llama MOSTLY_Q8_0"
    const std::string folder = name.substr(0, blank);
    const std::string type = blank == name.npos ? "f32" : name.substr(name.find('_') + 1);
    const fs::path file = root_ / (fs::path(folder).filename().string() + type + ".gguf");
    try {
      const ReadGguf read = exported(fs::path("tests/golden") / folder, type, file, /*refuses=*/false);
      expect_keys(read, wanted["keys"], folder);
      expect_tensors(read, wanted["tensors"]);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST_F(GgufModels, OfOtherTypesAreRefusedWithThoseThatCanBe) {
  const fs::path folder = "tests/golden/decoders/xlstm";
  try {
    exported(folder, "f32", root_ / "a.gguf");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("a model of type xlstm: hone writes no GGUF file of it"),
                                    HasSubstr("llama"), HasSubstr("qwen3_moe")));
  }
}

TEST_F(GgufModels, WhatLlamaCppDoesNotComputeIsRefused) {
  for (const auto& [folder, fact] :
       {std::pair{"models/llama-relu", "hidden_act: got \"relu\""},
        {"models/rope-dynamic-long", "rotary positions of type dynamic"},
        {"models/rope-yarn-betas", "beta_fast and beta_slow of yarn"},
        {"models/qwen2-tied-head-dim", "a head_dim other than"},
        {"models/qwen3-bias", "attention_bias"},
        {"decoders/ministral3-plain", "rotary positions of type default"},
        {"decoders/gemma2-uncapped", "a head of its own"},
        {"decoders/qwen2-moe-step", "layers without experts"}}) {
    SCOPED_TRACE(folder);
    try {
      exported(fs::path("tests/golden") / folder, "f32", root_ / "a.gguf");
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(fact));
    }
  }
}

// As golden_gguf.py makes them.
std::vector<float> numbers(const std::string& kind) {
  std::vector<float> x;
  for (std::uint64_t i = 0; i < 1024; ++i) {
    const std::uint64_t bits = (i * 2654435761 + 12345) % (std::uint64_t{1} << 32);
    float value = static_cast<float>(bits >> 8) / static_cast<float>(1 << 23) - 1.0f;
    if (kind == "cubed") value = value * value * value;
    if (kind == "mostly zeros" && i % 5 != 0) value = 0;
    if (kind == "groups of all sizes") value *= std::exp2(-static_cast<float>(i / 16 % 24));
    x.push_back(value);
  }
  return x;
}

TEST(GgufBlocks, AreThoseOfGgml) {
  const nlohmann::json hashes = gguf_golden("blocks.json");
  for (const auto& [name, hash] : hashes.items()) {
    SCOPED_TRACE(name);
    const std::size_t blank = name.rfind(' ');
    const std::vector<float> x = numbers(name.substr(0, blank));
    for (const io::GgufType type :
         {io::GgufType::f16, io::GgufType::bf16, io::GgufType::q4_0, io::GgufType::q4_1, io::GgufType::q5_0,
          io::GgufType::q5_1, io::GgufType::q8_0, io::GgufType::q2_k, io::GgufType::q3_k, io::GgufType::q4_k,
          io::GgufType::q5_k, io::GgufType::q6_k}) {
      if (io::name_of(type) != name.substr(blank + 1)) continue;
      std::string made(io::gguf_bytes(type, std::ssize(x)), '\0');
      gguf::to_blocks(type, x, std::as_writable_bytes(std::span(made)));
      EXPECT_EQ(fnv(made), hash);
    }
  }
}

TEST(GgufTypes, AreThoseThatLlamaQuantizeGives) {
  const nlohmann::json models = gguf_golden("types.json");
  for (const auto& [name, model] : models.items()) {
    const nlohmann::json& facts = model["facts"];
    std::vector<io::GgufTensor> tensors;
    for (std::int64_t layer = -1; layer < facts["layers"].get<std::int64_t>(); ++layer)
      for (const auto& [tensor, shape] : model["shapes"].items())
        if (layer < 0 ? !tensor.starts_with("blk.") : tensor.starts_with("blk." + std::to_string(layer) + "."))
          tensors.push_back({tensor, io::GgufType::f32, shape.get<std::vector<std::int64_t>>()});
    for (const auto& [type, wanted] : model["types"].items()) {
      SCOPED_TRACE(name + " as " + type);
      gguf::choose_types(tensors, *gguf::find_file_type(type),
                         {facts["arch"], facts["layers"], facts["experts"], facts["heads"], facts["kv_heads"]});
      for (const io::GgufTensor& tensor : tensors)
        EXPECT_EQ(io::name_of(tensor.type), wanted.value(tensor.name, "F32")) << tensor.name;
    }
  }
}

TEST(GgufTypes, AreFoundInAnyCase) {
  EXPECT_EQ(gguf::find_file_type("Q4_K_M"), gguf::find_file_type("q4_k_m"));
  EXPECT_EQ(gguf::find_file_type("q4"), nullptr);
  EXPECT_THAT(gguf::file_type_names(), testing::Contains("q5_k_m"));
}

// What a golden says of a list: how many entries and the hash of them.
void expect_vocabulary_key(const ReadGguf& read, const std::string& key, const nlohmann::json& wanted) {
  ASSERT_TRUE(read.keys.contains(key)) << key;
  const nlohmann::json& got = read.keys.at(key);
  if (wanted.is_object() && wanted.contains("count")) {
    EXPECT_EQ(got.size(), wanted["count"]) << key;
    EXPECT_EQ(fnv(read.list_bytes.at(key)), wanted["hash"]) << key;
  } else if (wanted.is_object()) {
    EXPECT_EQ(fnv(got.get<std::string>()), wanted["hash"]) << key;
  } else {
    EXPECT_EQ(got, wanted) << key;
  }
}

class GgufVocabularies : public Folders {};

TEST_F(GgufVocabularies, AreWhatTheConverterMakes) {
  const auto data = test_data("x");
  if (!data) GTEST_SKIP() << "HONE_TEST_DATA is not set";
  const nlohmann::json vocabularies = gguf_golden("vocabularies.json");
  for (const auto& [name, wanted] : vocabularies.items()) {
    SCOPED_TRACE(name);
    const fs::path source = data->parent_path() / (name == "stories260K" ? "models" : "tokenizers") / name;
    const fs::path folder = root_ / name;
    fs::create_directories(folder);
    for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) fs::copy(source / file, folder / file);
    if (name == "mistral-7b-instruct") fs::copy(source / "tokenizer.model.v1", folder / "tokenizer.model");
    const auto tokenizer = load_tokenizer(folder.string());
    io::GgufKeys keys;
    gguf::vocabulary_keys(keys, {*tokenizer, folder, wanted["rows"].get<std::int64_t>()});
    const Folder made = Env::process().open_folder(folder);
    io::GgufWriter(made.create("a.gguf"), keys, {}).finish();
    const ReadGguf read((folder / "a.gguf").string());
    for (const auto& [key, value] : wanted.items()) {
      if (key == "rows" || key.ends_with("add_sep_token")) continue;
      if (key.ends_with("add_space_prefix") && wanted["tokenizer.ggml.model"] == "gpt2") continue;  // nobody reads it
      // Without a tokenizer.model the converter gives tokens no scores, and llama.cpp then merges from the left.
      if (name == "stories260K" && (key.ends_with("scores") || key.ends_with("token_type") || key.ends_with("tokens")))
        continue;
      expect_vocabulary_key(read, key, value);
    }
  }
}

TEST(GgufPreTokenizers, AreFoundByWhatTheyDo) {
  const auto name = [](const std::string& text, bool ignore_merges = false) {
    return gguf::pre_tokenizer_name(nlohmann::json::parse(text), /*merges=*/true, ignore_merges);
  };
  const std::string bytes = R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})";
  const std::string llama =
      R"re({"type": "Split", "pattern": {"Regex": "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}, "behavior": "Isolated", "invert": false})re";
  EXPECT_EQ(name(R"({"type": "ByteLevel", "add_prefix_space": false})"), "gpt-2");
  EXPECT_EQ(name(R"({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
                 {"type": "ByteLevel", "add_prefix_space": false}]})"),
            "smollm");
  EXPECT_EQ(name(R"({"type": "Sequence", "pretokenizers": [)" + llama + "," + bytes + "]}", true), "llama-bpe");
  EXPECT_EQ(name(R"({"type": "Sequence", "pretokenizers": [)" + llama + "," + bytes + "]}"), "dbrx");
  EXPECT_EQ(name(bytes), "");
  EXPECT_EQ(name(R"({"type": "Whitespace"})"), "");
  EXPECT_EQ(name("null"), "");
  EXPECT_EQ(gguf::pre_tokenizer_name(nlohmann::json::parse(bytes), /*merges=*/false, false), "gpt-2");
}

}  // namespace
}  // namespace hone::test
