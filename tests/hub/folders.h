// What hub tests share: folders of their own, a small model, safetensors written by hand.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "hone/hub.h"
#include "hone/layers.h"
#include "hub/save.h"

namespace hone::test {

namespace fs = std::filesystem;
using at::Tensor;

inline std::string read_text(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_text(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

class Folders : public testing::Test {
 protected:
  Folders() {
    std::string name = (fs::temp_directory_path() / "hone-hub-XXXXXX").string();
    root_ = mkdtemp(name.data());
  }
  ~Folders() override { fs::remove_all(root_); }
  fs::path root_;
};

inline std::string config_text(bool tied = false) {
  return R"({"model_type": "llama", "vocab_size": 12, "hidden_size": 8, "intermediate_size": 10, "num_hidden_layers": 2,
             "num_attention_heads": 2, "num_key_value_heads": 1, "eos_token_id": 2, "tie_word_embeddings": )" +
         std::string(tied ? "true}" : "false}");
}
inline std::unique_ptr<Model> small_model(bool tied = false, Precision precision = Precision::fp32) {
  Problems problems;
  auto model = build_model(config::parse_json(config_text(tied), "config.json", problems), "config.json");
  init_weights(*model, 7, precision);
  return model;
}

// A tensor of a hand-written file: zeros of the shape.
struct Entry {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::int64_t bytes;
};
inline void write_safetensors(const fs::path& file, const std::vector<Entry>& entries, std::int64_t cut = 0) {
  nlohmann::ordered_json header;
  std::int64_t at = 0;
  for (const Entry& e : entries) {
    header[e.name] = {{"dtype", e.dtype}, {"shape", e.shape}, {"data_offsets", {at, at + e.bytes}}};
    at += e.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string out(8, '\0');
  for (int i = 0; i < 8; ++i) out[i] = static_cast<char>(text.size() >> (8 * i));
  write_text(file, out + text + std::string(at - cut, '\0'));
}
// What small_model's file holds.
inline std::vector<Entry> entries_of(Model& model, const std::string& dtype = "F32", std::int64_t size = 4) {
  std::vector<Entry> entries;
  model.each_weight(
      [&](const std::string& name, Weight& w) { entries.push_back({name, dtype, w.shape(), w.numel() * size}); });
  return entries;
}

template <class Work>
std::string error_of(Work&& work, ErrorKind kind = ErrorKind::checkpoint) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "no error";
}

}  // namespace hone::test
