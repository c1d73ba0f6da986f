// The pairs are those of which validate() says "not together".
#include "train/alternatives.h"

#include <algorithm>
#include <functional>

namespace hone::training {
namespace {

struct Option {
  const char *section, *key;
  bool shorthand = false;  // `section: value` means this one
};
constexpr std::pair<Option, Option> kPairs[] = {{{"run", "folder", true}, {"run", "name"}},
                                                {{"trainer", "steps"}, {"trainer", "epochs"}}};

void erase(config::Node& root, const Option& option) {
  config::Node* section = root.find(option.section);
  if (!section) return;
  if (option.shorthand && section->kind() == config::Node::Kind::scalar) *section = config::Node::map();
  std::erase_if(section->entries(), [&](const auto& entry) { return entry.first == option.key; });
}

void drop_excluded(config::Node& root, const std::function<bool(const Option&)>& given) {
  for (const auto& [one, other] : kPairs)
    if (given(one) != given(other)) erase(root, given(one) ? other : one);
}

}  // namespace

void drop_excluded(config::Node& root, const config::Node& layer) {
  drop_excluded(root, [&](const Option& option) {
    const config::Node* section = layer.find(option.section);
    return section && (section->find(option.key) || (option.shorthand && section->kind() == config::Node::Kind::scalar));
  });
}

void drop_excluded(config::Node& root, const std::vector<std::pair<std::string, std::string>>& overrides) {
  drop_excluded(root, [&](const Option& option) {
    const std::string path = std::string(option.section) + "." + option.key;
    return std::any_of(overrides.begin(), overrides.end(), [&](const auto& entry) {
      return entry.first == path || (option.shorthand && entry.first == option.section);
    });
  });
}

}  // namespace hone::training
