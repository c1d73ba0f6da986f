// Named entities in a row of labels.
#include "evals/entities.h"

#include <algorithm>
#include <string_view>

namespace hone::evals {
namespace {

struct ChunkMark {
  char place = 'O';  // B, I, E, S or O
  std::string_view type = "";
};

ChunkMark mark_of(const std::string& label) {
  return label == "O" ? ChunkMark() : ChunkMark{label[0], std::string_view(label).substr(2)};
}

bool ends(const ChunkMark& before, const ChunkMark& now) {
  if (before.place == 'O') return false;
  if (before.place == 'E' || before.place == 'S') return true;
  return now.place == 'B' || now.place == 'S' || now.place == 'O' || before.type != now.type;
}

bool begins(const ChunkMark& before, const ChunkMark& now) {
  if (now.place == 'O') return false;
  if (now.place == 'B' || now.place == 'S') return true;
  return before.place == 'E' || before.place == 'S' || before.place == 'O' || before.type != now.type;
}

}  // namespace

bool mark_entities(const std::vector<std::string>& labels) {
  const auto is_of_scheme = [](const std::string& label) {
    return label == "O" ||
           (label.size() > 2 && label[1] == '-' && std::string_view("BIES").find(label[0]) != std::string::npos);
  };
  return std::all_of(labels.begin(), labels.end(), is_of_scheme) && (labels.size() > 1 || labels[0] != "O");
}

std::vector<Entity> entities_of(std::span<const std::int64_t> tokens, const std::vector<std::string>& labels) {
  std::vector<Entity> found;
  ChunkMark before;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= tokens.size(); ++i) {
    const ChunkMark now = i < tokens.size() ? mark_of(labels.at(static_cast<std::size_t>(tokens[i]))) : ChunkMark();
    if (ends(before, now)) found.push_back({std::string(before.type), begin, i});
    if (begins(before, now)) begin = i;
    before = now;
  }
  return found;
}

}  // namespace hone::evals
