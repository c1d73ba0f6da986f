// A file of the token cache behind its own hash, which is no secret: what is accepted stays inside its arrays.
#include <array>
#include <cstring>
#include <filesystem>

#include "base/hash.h"
#include "data/token_store.h"
#include "fuzz/fuzz.h"

namespace {

const std::string kKey(32, 'k');
constexpr std::size_t kHeader = 160;

// The fields that only a program gets right: size, key and hash. The hash leaves out the filling between arrays.
std::string with_hash(std::string file) {
  if (file.size() < kHeader) return file;
  const std::uint64_t size = file.size();
  std::memcpy(file.data(), "ONETOK04", 8);
  std::memcpy(file.data() + 8, &size, 8);
  std::memset(file.data() + 16, 0, 8);
  std::memcpy(file.data() + 24, kKey.data(), kKey.size());
  std::array<std::uint64_t, 9> counts;
  std::memcpy(counts.data(), file.data() + 56, sizeof counts);
  const std::array<std::uint64_t, 10> lengths = {counts[0], counts[1], counts[2], counts[2], counts[3],
                                                 counts[4], counts[5], counts[6], counts[7], counts[8]};
  constexpr std::array<std::uint64_t, 10> kWidths = {2, 4, 8, 8, 8, 16, 8, 12, 8, 1};
  hone::Hasher hasher;
  hasher.update(std::string_view(file).substr(0, kHeader));
  std::size_t at = kHeader;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] > (file.size() - at) / kWidths[i]) return file;
    const std::size_t bytes = lengths[i] * kWidths[i];
    hasher.update(std::string_view(file).substr(at, bytes));
    at = std::min(file.size(), at + (bytes + 7) / 8 * 8);
  }
  const std::uint64_t hash = hasher.digest64();
  std::memcpy(file.data() + 16, &hash, 8);
  return file;
}

}  // namespace

HONE_FUZZ(token_cache) {
  using namespace hone;
  const std::filesystem::path path = fuzz::file_of("cache", with_hash(std::string(input)));
  const auto store = data::TokenStore::load(path.parent_path().string(), "cache", kKey);
  std::vector<std::int64_t> ids(store->size()), labels(store->size());
  std::int64_t learnt = 0, seams = 0;
  for (std::int64_t doc = 0; doc < store->docs(); ++doc) {
    const std::uint64_t begin = store->begin(doc), end = store->end(doc);
    fuzz::require(begin < end && end <= store->size(), "a document lies in the arrays");
    store->copy_ids(begin, end, ids.data() + begin);
    store->copy_labels(begin, end, labels.data() + begin);
    learnt += store->supervised(begin, end);
    store->line(doc);
    seams += store->seams(begin, end);
    const std::int64_t group_end = store->group_end(doc);
    fuzz::require(group_end > doc && group_end <= store->docs(), "a group lies in the arrays");
    fuzz::require(store->role(doc) <= Role::rejected, "a role is one");
    if (store->is_labelled())
      fuzz::require(store->label(doc).name < store->label_names().size(), "a label has a name");
  }
  for (std::uint64_t i = 0; i < store->size(); ++i) {
    fuzz::require(ids[i] >= 0 && ids[i] <= store->counts().max_id, "no id is above the highest");
    fuzz::require(ids[i] == store->id(i), "both ways to an id give the same");
    fuzz::require((labels[i] == -100 || labels[i] >= 0) &&
                      labels[i] <= std::max(store->counts().max_id, store->highest_exception()),
                  "no label is above the highest");
  }
  fuzz::require(learnt <= static_cast<std::int64_t>(store->size()), "no token is learnt twice");
  fuzz::require(seams <= static_cast<std::int64_t>(store->size()), "no token is a seam twice");
}
