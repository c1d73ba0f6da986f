// Flat arrays of tokens: adding documents and reading ids and labels back.
#include "data/token_store.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/hash.h"

namespace hone::data {

void TokenStore::add(const Tokens& tokens, std::int64_t line, bool from_text, std::span<const std::size_t> seams) {
  ++counts_.records;
  if (tokens.ids.empty()) {
    ++counts_.empty;
    return;
  }
  if (!from_text) ++counts_.not_text;
  add_document(tokens, line, seams);
}

void TokenStore::begin_group(Role role) {
  members_.push_back({members_.empty() ? 0 : members_.back().group + 1, role});
  HONE_ASSERT(std::ssize(members_) == docs());
}

void TokenStore::add_companion(const Tokens& tokens, Role role, std::span<const std::size_t> seams) {
  HONE_ASSERT(is_grouped() && !tokens.ids.empty());
  ++counts_.not_text;
  add_document(tokens, lines_.back(), seams);
  members_.push_back({members_.back().group, role});
}

void TokenStore::count_last(std::uint32_t characters) {
  characters_.push_back(characters);
  HONE_ASSERT(std::ssize(characters_) == docs());
}

void TokenStore::add_pictures(std::span<const PlacedPicture> pictures) {
  const std::uint64_t base = begin(docs() - 1);
  for (const PlacedPicture& one : pictures) {
    const bool is_path = !one.file.path.empty();
    const std::string& text = is_path ? one.file.path : one.file.bytes;
    picture_text_.append(std::span(text));
    const std::uint64_t kind = one.tile > 0 ? Picture::kTile : is_path ? Picture::kPath : Picture::kBytes;
    pictures_.push_back({base + one.begin, one.tokens, picture_text_.size(), kind});
  }
}

std::size_t TokenStore::first_picture_from(std::uint64_t position) const {
  const auto found = std::lower_bound(pictures_.begin(), pictures_.end(), position,
                                      [](const Picture& one, std::uint64_t at) { return one.begin < at; });
  return static_cast<std::size_t>(found - pictures_.begin());
}

bool TokenStore::has_pictures(std::uint64_t begin, std::uint64_t end) const {
  const std::size_t first = first_picture_from(begin);
  return first < pictures_.size() && pictures_[first].begin < end;
}

std::vector<PlacedPicture> TokenStore::pictures(std::uint64_t begin, std::uint64_t end) const {
  std::vector<PlacedPicture> found;
  for (std::size_t i = first_picture_from(begin); i < pictures_.size() && pictures_[i].begin < end; ++i) {
    const std::uint64_t from = i == 0 ? 0 : pictures_[i - 1].end;
    std::string text(picture_text_.data() + from, pictures_[i].end - from);
    PlacedPicture one{pictures_[i].begin - begin, pictures_[i].tokens};
    if (pictures_[i].kind == Picture::kTile) one.tile = found.empty() ? 1 : found.back().tile + 1;
    else (pictures_[i].kind == Picture::kPath ? one.file.path : one.file.bytes) = std::move(text);
    found.push_back(std::move(one));
  }
  return found;
}

void TokenStore::each_picture_path(const std::function<void(std::string_view, std::int64_t)>& visit) const {
  std::int64_t doc = 0;
  for (std::size_t i = 0; i < pictures_.size(); ++i) {
    if (pictures_[i].kind != Picture::kPath) continue;
    while (end(doc) <= pictures_[i].begin) ++doc;
    const std::uint64_t from = i == 0 ? 0 : pictures_[i - 1].end;
    visit({picture_text_.data() + from, pictures_[i].end - from}, doc);
  }
}

std::int64_t TokenStore::group_end(std::int64_t doc) const {
  std::int64_t end = doc + 1;
  if (!is_grouped()) return end;
  const std::uint32_t group = members_[static_cast<std::size_t>(doc)].group;
  while (end < docs() && members_[static_cast<std::size_t>(end)].group == group) ++end;
  return end;
}

void TokenStore::add_document(const Tokens& tokens, std::int64_t line, std::span<const std::size_t> seams) {
  HONE_ASSERT(tokens.labels.size() == tokens.ids.size());
  const std::uint64_t base = size();
  const std::int64_t highest = *std::max_element(tokens.ids.begin(), tokens.ids.end());
  if (highest > 0xFFFF && narrow_ids()) widen();
  counts_.max_id = std::max(counts_.max_id, highest);
  if (narrow_ids())
    ids16_.append(std::span(tokens.ids));
  else
    ids32_.append(std::span(tokens.ids));
  put_away_when_many();
  add_labels(tokens, base);
  for (const std::size_t seam : seams) seams_.push_back(base + seam);
  ends_.push_back(base + tokens.ids.size());
  lines_.push_back(line);
}

std::uint32_t TokenStore::index_of(const std::string& label_name) {
  const auto index = static_cast<std::uint32_t>(label_names_.size());
  const auto [found, is_new] = label_index_.try_emplace(label_name, index);
  if (is_new) label_names_.push_back(label_name);
  return found->second;
}

void TokenStore::label_last(const DocLabel& label) {
  labels_.push_back({index_of(label.name), label.second, label.cut});
  HONE_ASSERT(std::ssize(labels_) == docs());
}

void TokenStore::add_tagged(Tokens tokens, const DocTags& tags, std::int64_t line) {
  if (tags.crowded > 0 && crowded_ == 0) crowded_line_ = line;
  crowded_ += tags.crowded;
  if (tokens.ids.empty()) return add(tokens, line, /*from_text=*/false);
  label_tokens(tokens, tags);
  add(tokens, line, /*from_text=*/false);
  HONE_ASSERT(is_tagged() && std::ssize(labels_) == docs());
}

void TokenStore::add_tagged_companion(Tokens tokens, const DocTags& tags) {
  label_tokens(tokens, tags);
  add_companion(tokens, Role::none);
  HONE_ASSERT(is_tagged() && std::ssize(labels_) == docs());
}

void TokenStore::label_tokens(Tokens& tokens, const DocTags& tags) {
  std::vector<std::int32_t> indices;
  for (const std::string& name : tags.names) indices.push_back(static_cast<std::int32_t>(index_of(name)));
  for (std::int32_t& label : tokens.labels)
    if (label != -100) label = indices.at(static_cast<std::size_t>(label));
  labels_.push_back({kOfTokens, std::min(tags.second, static_cast<std::uint32_t>(tokens.ids.size())), tags.cut});
}

void TokenStore::keep_question(QuestionDoc question) {
  questions_.push_back(std::move(question));
  HONE_ASSERT(std::ssize(questions_) == docs());
}

const QuestionDoc* TokenStore::question(std::int64_t doc) const {
  return questions_.empty() ? nullptr : &questions_.at(static_cast<std::size_t>(doc));
}

void TokenStore::add_labels(const Tokens& tokens, std::uint64_t base) {
  const std::size_t size = tokens.ids.size();
  if (tokens.labels == tokens.ids) return add_range(base, base + size);  // a text
  std::size_t begin = size;  // of the learnt tokens that i belongs to; size: it belongs to none
  for (std::size_t i = 0; i < size; ++i) {
    const bool learnt = tokens.labels[i] != -100;
    if (learnt && begin == size) begin = i;
    if (!learnt && begin != size) add_range(base + std::exchange(begin, size), base + i);
    const bool is_target = i > 0 || is_tagged();
    if (learnt && is_target && tokens.labels[i] != tokens.ids[i]) exceptions_.push_back({base + i, tokens.labels[i]});
  }
  if (begin != size) add_range(base + begin, base + size);
}

void TokenStore::add_range(std::uint64_t begin, std::uint64_t end) {
  if (!ranges_.empty() && ranges_.back() == begin)
    ranges_.set_back(end);  // goes on from the document before
  else
    ranges_.push_back(begin), ranges_.push_back(end);
}

void TokenStore::add_content(Hasher& hasher, std::int64_t doc) const {
  std::vector<std::int64_t> values(end(doc) - begin(doc));
  copy_ids(begin(doc), end(doc), values.data());
  hasher.update(std::as_bytes(std::span(values)));
  copy_labels(begin(doc), end(doc), values.data());
  hasher.update(std::as_bytes(std::span(values)));
  if (is_tagged())
    for (const std::string& name : label_names()) hasher.update_field(name);
  else if (is_labelled())
    hasher.update_field(label_names()[label(doc).name]);
  if (is_grouped()) hasher.update_int(static_cast<std::uint64_t>(role(doc)));
  if (counts_characters()) hasher.update_int(characters(doc));
  if (taught_.is_there()) taught_.add_content(hasher, begin(doc), end(doc));
  for (const PlacedPicture& one : pictures(begin(doc), end(doc)))
    hasher.update_int(one.begin).update_field(one.file.path).update_field(one.file.bytes);
}

std::int64_t TokenStore::highest_exception() const {
  std::int64_t highest = -1;
  if (is_tagged()) return highest;
  for (const Exception& one : exceptions_) highest = std::max(highest, one.label);
  return highest;
}

void TokenStore::widen() {
  if (file_) widen_file();
  ids32_.append(ids16_.all());
  ids16_.assign({});
}

void TokenStore::copy_ids(std::uint64_t begin, std::uint64_t end, std::int64_t* into) const {
  if (narrow_ids())
    std::copy(ids16_.data() + begin, ids16_.data() + end, into);
  else
    std::copy(ids32_.data() + begin, ids32_.data() + end, into);
}

// Index into ranges_ of the first range that ends after `position`.
std::size_t TokenStore::first_range_after(std::uint64_t position) const {
  const auto bound = std::upper_bound(ranges_.begin(), ranges_.end(), position);
  return static_cast<std::size_t>(bound - ranges_.begin()) & ~std::size_t{1};
}

void TokenStore::copy_labels(std::uint64_t begin, std::uint64_t end, std::int64_t* into) const {
  std::fill(into, into + (end - begin), -100);
  for (std::size_t i = first_range_after(begin); i < ranges_.size() && ranges_[i] < end; i += 2) {
    const std::uint64_t from = std::max(begin, ranges_[i]), to = std::min(end, ranges_[i + 1]);
    copy_ids(from, to, into + (from - begin));
  }
  auto at = std::lower_bound(exceptions_.begin(), exceptions_.end(), begin,
                             [](const Exception& one, std::uint64_t position) { return one.position < position; });
  for (; at != exceptions_.end() && at->position < end; ++at) into[at->position - begin] = at->label;
}

std::int64_t TokenStore::supervised(std::uint64_t begin, std::uint64_t end) const {
  std::uint64_t count = 0;
  for (std::size_t i = first_range_after(begin); i < ranges_.size() && ranges_[i] < end; i += 2)
    count += std::min(end, ranges_[i + 1]) - std::max(begin, ranges_[i]);
  return static_cast<std::int64_t>(count);
}

std::int64_t TokenStore::seams(std::uint64_t begin, std::uint64_t end) const {
  const auto first = std::lower_bound(seams_.begin(), seams_.end(), begin);
  return std::lower_bound(first, seams_.end(), end) - first;
}

std::pair<std::uint64_t, std::uint64_t> TokenStore::last_learnt(std::uint64_t begin, std::uint64_t end) const {
  HONE_ASSERT(begin < end);
  std::size_t i = first_range_after(end - 1);
  if (i >= ranges_.size() || ranges_[i] >= end) {
    if (i == 0 || ranges_[i - 1] <= begin) return {end, end};
    i -= 2;
  }
  return {std::max(begin, ranges_[i]), std::min(end, ranges_[i + 1])};
}

std::uint64_t TokenStore::learnt_until(std::uint64_t position) const {
  const std::size_t i = first_range_after(position);
  return i < ranges_.size() && ranges_[i] <= position ? ranges_[i + 1] : position;
}

}  // namespace hone::data
