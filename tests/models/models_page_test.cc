// docs/models.md says of each model that there is what it can, and names no other.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include "base/strings.h"
#include "hone/adapter.h"
#include "hone/hub.h"
#include "hone/registry.h"
#include "nn/lora_targets.h"

namespace hone::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPage = "docs/models.md";

// A configuration of each type, of those that the other tests have.
std::map<std::string, config::Node> configurations() {
  std::map<std::string, config::Node> all;
  for (const auto& entry : fs::recursive_directory_iterator("tests/golden")) {
    const bool of_model = fs::exists(entry.path().parent_path() / "model.safetensors");
    if (entry.path().filename() != "config.json" || !of_model) continue;
    config::Node node = config::read_file(entry.path().string());
    std::erase_if(node.entries(), [](const auto& one) {  // heads are asked for, and one that continues texts, too
      return one.first == "architectures" || one.first == "use_bidirectional_attention";
    });
    if (const config::Node* type = node.find("model_type")) all.emplace(type->text(), node);
  }
  return all;
}

// Whether there is such a model, made for that head, of which this holds.
bool can(const config::Node& node, const HeadRequest& head, const std::function<bool(Model&)>& holds) {
  try {
    return holds(*build_model(node, "config.json", head));
  } catch (const Error&) {
    return false;
  }
}

bool takes_lora(Model& model) { return !nn::lora_targets(model, LoraConfig{}).empty(); }

// What the page has a column of.
std::map<std::string, bool> facts_of(const config::Node& node) {
  const std::vector<std::string> two = {"a", "b"};
  const HeadRequest questions{.labels = {kPlacesOfAnswers.begin(), kPlacesOfAnswers.end()},
                              .of_tokens = true,
                              .answers_questions = true};
  const auto labels = [](bool of_tokens) {
    return [of_tokens](Model& m) { return m.classifier() && m.classifier()->of_tokens() == of_tokens; };
  };
  return {{"continues texts", can(node, {}, [](Model& m) { return m.causal_lm() && !m.seq2seq_lm(); })},
          {"texts from texts", can(node, {}, [](Model& m) { return m.seq2seq_lm() != nullptr; })},
          {"masked tokens", can(node, {.masked_lm = true}, [](Model& m) { return m.masked_lm() != nullptr; })},
          {"labels of texts", can(node, {.labels = two}, labels(false))},
          {"labels of words", can(node, {.labels = two, .of_tokens = true}, labels(true))},
          {"answers in texts", can(node, questions, [](Model& m) { return m.classifier()->answers_questions(); })},
          {"pictures", can(node, {}, [](Model& m) { return m.pictures() != nullptr; })},
          {"LoRA", can(node, {}, takes_lora)}};
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  for (const std::string& cell : split(line.substr(1, line.size() - 2), '|')) cells.emplace_back(trim(cell));
  return cells;
}

TEST(ModelsPage, SaysWhatEachModelCan) {
  const auto given = configurations();
  std::ifstream page(kPage);
  ASSERT_TRUE(page);
  std::vector<std::string> columns;
  std::set<std::string> told;
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("|")) columns.clear();
    if (!line.starts_with("| ")) continue;
    const std::vector<std::string> cells = cells_of(line);
    if (columns.empty()) {
      columns = cells;
      continue;
    }
    if (columns.size() < 3 || columns[1] != "`model_type`") continue;
    ASSERT_EQ(cells.size(), columns.size()) << line;
    config::Node node;
    for (const std::string& quoted : split(cells[1], ' ')) {
      const std::string type = replace_all(replace_all(quoted, "`", ""), ",", "");
      EXPECT_TRUE(told.insert(type).second) << type << " is there twice";
      if (given.contains(type)) node = given.at(type);  // else of the one before it, which is the same model
      node.at_or_add("model_type") = config::Node::scalar(type, /*quoted=*/true);
      const auto facts = facts_of(node);
      for (std::size_t i = 2; i < columns.size(); ++i) {
        ASSERT_TRUE(facts.contains(columns[i])) << columns[i];
        EXPECT_EQ(cells[i], facts.at(columns[i]) ? "yes" : "") << type << ": " << columns[i];
      }
    }
  }
  for (const std::string& name : registries().models.names())
    EXPECT_TRUE(told.contains(name)) << name << " is not in " << kPage;
  EXPECT_EQ(told.size(), registries().models.names().size());
}

}  // namespace
}  // namespace hone::test
