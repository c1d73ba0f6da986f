// Goldens of models that read pictures, and folders made of them.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/files.h"
#include "models/golden_checks.h"
#include "models/write_tensors.h"

namespace hone::test {

inline const std::filesystem::path kPictures = "tests/golden/pictures";

inline std::vector<std::int64_t> numbers_of(const Tensor& x) {
  const Tensor held = x.contiguous();
  return {held.data_ptr<std::int64_t>(), held.data_ptr<std::int64_t>() + held.numel()};
}

struct PictureGolden : Golden {
  explicit PictureGolden(const std::string& name) : Golden(name, kPictures) {}
  Tensor patches() const { return tensors.contains("patches") ? (*this)["patches"] : (*this)["pixel_values"]; }
  std::vector<PictureSpan> spans() const {
    std::vector<PictureSpan> all;
    const auto spans = numbers_of((*this)["spans"]), grids = numbers_of((*this)["grids"]);
    for (std::size_t i = 0; i < spans.size(); i += 3)
      all.push_back({static_cast<std::int32_t>(spans[i]),
                     static_cast<std::int32_t>(spans[i + 1]),
                     static_cast<std::int32_t>(spans[i + 2]),
                     {grids[i], grids[i + 1], grids[i + 2]}});
    if (!tensors.contains("tiles")) return all;
    const auto tiles = numbers_of((*this)["tiles"]);
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i].tiles = {tiles[4 * i], tiles[4 * i + 1], tiles[4 * i + 2], tiles[4 * i + 3]};
    return all;
  }
  Batch batch() const {
    Batch made = Golden::batch();
    made.pictures = {spans(), patches()};
    return made;
  }
};

// A folder with these names and this config.json gives the golden's logits.
using Tensors = std::map<std::string, Tensor>;
inline void expect_read(const PictureGolden& golden, const nlohmann::json& config,
                 const std::function<std::string(const std::string&)>& name_of,
                 const std::function<void(Tensors&)>& change = [](Tensors&) {}) {
  const TempFolder root;
  std::map<std::string, Tensor> tensors;
  golden.model()->each_weight([&](const std::string& name, Weight& weight) {
    if (const std::string named = name_of(name); !named.empty()) tensors[named] = weight.use();
  });
  change(tensors);
  const std::string file = root.write("config.json", config.dump());
  write_tensors(root / "model.safetensors", tensors);
  const auto model = load_model(root.path().string(), Precision::fp32);
  const Tensor logits = model->causal_lm()->logits(golden.batch()) * golden["attention_mask"].unsqueeze(-1);
  expect_close(logits, golden["logits"], 1e-5 * std::max(1.0, largest(golden["logits"])), golden.folder);
}

inline nlohmann::json config_of(const Golden& golden) {
  return nlohmann::json::parse(content_of(golden.folder / "config.json"));
}

inline std::string problem_of(const std::string& name, const std::function<void(nlohmann::json&)>& change) {
  nlohmann::json config = config_of(Golden(name, kPictures));
  change(config);
  Problems problems;
  try {
    build_model(config::parse_json(config.dump(), "config.json", problems), "config.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace hone::test
