// Cuts documents to max_length, drops pieces that carry no loss, and packs the rest into rows.
#include "data/cut.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>

#include "base/option_words.h"
#include "data/labels.h"

namespace hone::data {
namespace {

using NameOf = std::function<std::string(std::int64_t)>;

// One data file's way to rows; the members are its state.
class Cutter {
 public:
  Cutter(const TokenStore& store, const Dataset::Options& options, std::int32_t bos, const NameOf& name_of,
         DataReport& report)
      : store_(store),
        options_(options),
        bos_(bos),
        name_of_(name_of),
        report_(report),
        most_(static_cast<std::uint64_t>(options.max_length)),
        most_target_(static_cast<std::uint64_t>(options.targets.max_length.value_or(options.max_length))),
        capacity_(options.records == RecordKind::seq2seq ? most_ + most_target_
                  : are_apart(options.records)           ? most_
                                                         : most_ * widest_group(store)) {}

  void add(Stretch stretch) {
    ++report_.records;
    if (are_texts(options_.records)) return add_texts(stretch);
    if (options_.records == RecordKind::question) return add_windows(stretch);
    if (options_.records == RecordKind::seq2seq) return add_with_target(stretch);
    if (store_.is_labelled()) return add_labelled(stretch);
    if (store_.is_grouped()) return add_group(stretch);
    if (options_.records == RecordKind::asked) return add_asked(stretch);
    const std::int64_t learnt = store_.supervised(stretch.begin + 1, stretch.end);
    kept_ = 0;
    if (learnt == 0)
      ++report_.unsupervised_records;
    else if (store_.has_pictures(stretch.begin, stretch.end))
      lay_with_pictures(stretch);
    else if (lay(stretch) && kept_ == 0)
      ++report_.unsupervised_records;  // what was learnt has been cut off
    report_.lost_supervised += learnt - kept_;
  }

  RowTable finish() {
    switch (options_.packing) {
      case Packing::none:
        one_unit_each();
        break;
      case Packing::best_fit:
        pack();
        break;
      case Packing::concat:
        close_row();
        break;
    }
    return std::move(table_);
  }

 private:
  // Whether a row is no longer because of groups.
  static bool are_apart(RecordKind records) {
    return records == RecordKind::choice || records == RecordKind::question;
  }
  static std::uint64_t widest_group(const TokenStore& store) {
    std::int64_t widest = 1;
    for (std::int64_t doc = 0; store.is_grouped() && doc < store.docs(); doc = store.group_end(doc))
      widest = std::max(widest, store.group_end(doc) - doc);
    return static_cast<std::uint64_t>(widest);
  }

  void add_group(const Stretch& stretch) {
    const DataReport before = report_;
    std::vector<Piece> unit;
    std::int64_t learnt = 0, kept = 0;
    bool dropped = false, empty = false;
    for (std::int64_t doc = stretch.doc; doc < store_.group_end(stretch.doc); ++doc) {
      const Stretch one{store_.begin(doc), store_.end(doc), doc};
      const std::int64_t own = store_.supervised(one.begin + 1, one.end);
      learnt += own;
      empty |= own == 0;
      if (dropped || empty) continue;
      const std::optional<Piece> piece = piece_of_group(one);
      dropped = !piece;
      if (piece) unit.push_back(*piece);
    }
    if (!dropped && !empty) align(unit);
    for (const Piece& piece : unit) {
      const std::int64_t left = store_.supervised(piece.first_target(), piece.targets_end());
      empty |= left == 0;
      kept += left;
    }
    const bool pair = unit.size() == 2 && options_.records != RecordKind::choice;
    if (!dropped && !empty && pair) empty = same(unit.front(), unit.back());
    // Of the record, not of each document.
    report_.cut = std::min(report_.cut, before.cut + 1);
    report_.cut_prompts = std::min(report_.cut_prompts, before.cut_prompts + 1);
    // An answer to choose from that has lost some of itself is compared as another one.
    if (options_.records == RecordKind::choice && kept < learnt && !dropped && !empty) {
      report_ = before;
      ++report_.dropped;
      dropped = true;
    }
    if (dropped) report_.cut_tokens = before.cut_tokens + static_cast<std::int64_t>(stretch.end - stretch.begin);
    report_.unsupervised_records += empty && !dropped;
    if (dropped || empty) unit.clear(), kept = 0;
    report_.lost_supervised += learnt - kept;
    if (!unit.empty()) lay_unit(unit);
  }

  // Answers are compared under one prompt: the start that a document of the group has lost goes from the others, too,
  // where they began with the same.
  void align(std::vector<Piece>& unit) {
    if (unit.empty()) return;
    const auto lost = [&](const Piece& piece) { return piece.begin - store_.begin(piece.doc); };
    const Piece shortest = *std::max_element(
        unit.begin(), unit.end(), [&](const Piece& a, const Piece& b) { return lost(a) < lost(b); });
    for (Piece& piece : unit) {
      const std::uint64_t more = lost(shortest) - lost(piece);
      if (more == 0 || !begin_alike(piece.doc, shortest.doc, lost(shortest))) continue;
      const std::uint64_t end = piece.end();
      piece.begin += more;
      piece.has_first = shortest.has_first;
      const std::uint64_t before = piece.length;
      piece.length = static_cast<std::uint32_t>(end - piece.begin + (piece.has_first ? 1 : 0));
      report_.cut_tokens += static_cast<std::int64_t>(before - piece.length);
    }
  }

  // Their first `length` tokens are the same, and a token of the prompt is left behind them.
  bool begin_alike(std::int64_t a, std::int64_t b, std::uint64_t length) const {
    const std::uint64_t from_a = store_.begin(a), from_b = store_.begin(b);
    if (store_.last_learnt(from_a + 1, store_.end(a)).first <= from_a + length) return false;
    for (std::uint64_t i = 0; i < length; ++i)
      if (store_.id(from_a + i) != store_.id(from_b + i)) return false;
    return true;
  }

  // What they differed in has been cut off.
  bool same(const Piece& a, const Piece& b) const {
    const std::uint64_t length = a.targets_end() - a.begin;
    if (b.targets_end() - b.begin != length) return false;
    for (std::uint64_t i = 0; i < length; ++i)
      if (store_.id(a.begin + i) != store_.id(b.begin + i)) return false;
    return true;
  }

  // Nothing: it drops its group.
  std::optional<Piece> piece_of_group(Stretch doc) {
    if (doc.end - doc.begin <= most_) return whole(doc);
    if (options_.overlong == Overlong::split) return without_start(doc);
    return shorten(doc) ? std::optional(whole(doc)) : std::nullopt;
  }

  void lay_unit(const std::vector<Piece>& unit) {
    std::uint64_t length = 0;
    for (const Piece& piece : unit) length += piece.length;
    capacity_ = std::max(capacity_, length);  // of choices, of which there may be many to few questions
    if (options_.packing == Packing::concat && used_ + length > capacity_) close_row();
    if (units_.empty()) units_.push_back(0);
    for (const Piece& piece : unit) keep(piece);
    units_.push_back(table_.pieces.size());
    if (options_.packing == Packing::concat) used_ += length;
  }

  // A prompt without its beginning or end asks something else: what is too long is dropped, or an error.
  void add_asked(const Stretch& stretch) {
    if (const std::uint64_t length = stretch.end - stretch.begin; length > most_) {
      if (options_.overlong == Overlong::error) fail_long(stretch, option_words("data.overlong", "drop"));
      ++report_.dropped;
      report_.cut_tokens += static_cast<std::int64_t>(length);
      return;
    }
    ++report_.asked;
    report_.without_answer += store_.supervised(stretch.begin + 1, stretch.end) == 0;
    table_.pieces.push_back(whole(stretch));
  }

  // What is too long is shortened already, unless it is to be dropped or an error.
  void add_labelled(Stretch stretch) {
    const std::uint32_t cut = store_.label(stretch.doc).cut;
    report_.cut += cut > 0;
    report_.cut_tokens += cut;
    if (stretch.end - stretch.begin > most_ && !shorten(stretch)) return;
    const bool learnt = !store_.is_tagged() || store_.supervised(stretch.begin, stretch.end) > 0;
    learnt ? lay_whole(whole(stretch)) : void(++report_.unsupervised_records);
  }

  // Each window of a question is a piece of its own, of max_length at most.
  void add_windows(const Stretch& stretch) {
    report_.split += store_.group_end(stretch.doc) > stretch.doc + 1;
    for (std::int64_t doc = stretch.doc; doc < store_.group_end(stretch.doc); ++doc)
      lay_whole(whole({store_.begin(doc), store_.end(doc), doc}));
  }

  // A source and its target are shortened already, or too long for a record to be kept. What a target is begun with
  // stands before its first token, and its last one is read by nobody.
  void add_with_target(const Stretch& stretch) {
    const std::int64_t source = stretch.doc, target = source + 1;
    const std::uint64_t lengths[] = {store_.end(source) - store_.begin(source),
                                     store_.end(target) - store_.begin(target) - 1};
    const std::uint32_t cut_target = store_.label(target).cut, cut = store_.label(source).cut + cut_target;
    const bool long_source = lengths[0] > most_;
    if (long_source || lengths[1] > most_target_) {
      if (options_.overlong == Overlong::error)
        throw Error(ErrorKind::data,
                    fmt::format("{}: a {} of {} tokens; expected at most {}", name_of_(source),
                                long_source ? "source" : "target", lengths[long_source ? 0 : 1],
                                long_source ? most_ : most_target_))
            .hint(fmt::format("raise {}, or set {}",
                              long_source ? option_words("data.max_length") : "objective.max_target_length",
                              option_words("data.overlong", "drop")));
      ++report_.dropped;
      report_.cut_tokens += static_cast<std::int64_t>(lengths[0] + lengths[1]);
      report_.lost_supervised += static_cast<std::int64_t>(lengths[1]);
      return;
    }
    report_.cut += cut > 0;
    report_.cut_prompts += store_.label(source).cut > 0;
    report_.cut_tokens += cut;
    report_.lost_supervised += cut_target;
    lay_unit({{.begin = store_.begin(source), .doc = source, .length = static_cast<std::uint32_t>(lengths[0])},
              {.begin = store_.begin(target),
               .doc = target,
               .length = static_cast<std::uint32_t>(lengths[1]),
               .has_next = true}});
  }

  // Of texts to embed one that is too long is shortened already, or drops its record, or is an error.
  void add_texts(const Stretch& stretch) {
    const DataReport before = report_;
    std::vector<Piece> unit;
    bool dropped = false;
    std::uint32_t cut = 0;
    for (std::int64_t doc = stretch.doc; doc < store_.group_end(stretch.doc) && !dropped; ++doc) {
      Stretch one{store_.begin(doc), store_.end(doc), doc};
      cut += store_.label(doc).cut;
      dropped = one.end - one.begin > most_ && !shorten(one);
      unit.push_back(whole(one));
    }
    if (dropped) {
      report_.dropped = before.dropped + 1;
      report_.cut_tokens = before.cut_tokens + static_cast<std::int64_t>(stretch.end - stretch.begin);
      return;
    }
    report_.cut += cut > 0;
    report_.cut_tokens += cut;
    lay_unit(unit);
  }

  // Never cut: what is too long is dropped, or an error.
  void lay_with_pictures(const Stretch& stretch) {
    const std::uint64_t length = stretch.end - stretch.begin;
    if (length <= most_) return lay_whole(whole(stretch));
    if (options_.overlong == Overlong::error) fail_long(stretch, option_words("data.overlong", "drop"));
    ++report_.dropped;
    ++report_.with_pictures;
    report_.cut_tokens += static_cast<std::int64_t>(length);
  }

  // false: the record is dropped.
  bool lay(Stretch stretch) {
    const bool has_prompt = store_.has_prompt(stretch.doc), fits = stretch.end - stretch.begin <= most_;
    if (!fits && options_.overlong != Overlong::split && !shorten(stretch)) return false;
    if (has_prompt) {
      lay_whole(fits || options_.overlong != Overlong::split ? whole(stretch) : without_start(stretch));
      return true;
    }
    const std::int64_t cuts = options_.packing == Packing::concat ? lay_end_to_end(stretch) : chop(stretch);
    if (cuts > 1) ++report_.split;
    return true;
  }

  // instead: what may be set.
  [[noreturn]] void fail_long(const Stretch& stretch, const std::string& instead) const {
    throw Error(ErrorKind::data, fmt::format("{}: {} tokens; expected at most max_length {}", name_of_(stretch.doc),
                                             stretch.end - stretch.begin, most_))
        .hint(fmt::format("raise {}, or set {}", option_words("data.max_length"), instead));
  }

  // Applies every policy but split to what is too long; false: it is dropped.
  bool shorten(Stretch& stretch) {
    const std::uint64_t length = stretch.end - stretch.begin;
    if (options_.overlong == Overlong::error)
      fail_long(stretch, option_words("data.overlong") + " to split, keep_start, keep_end or drop");
    const bool dropped = options_.overlong == Overlong::drop;
    ++(dropped ? report_.dropped : report_.cut);
    report_.cut_tokens += static_cast<std::int64_t>(dropped ? length : length - most_);
    if (options_.overlong == Overlong::keep_start) stretch.end = stretch.begin + most_;
    if (options_.overlong == Overlong::keep_end) stretch.begin = stretch.end - most_;
    return !dropped;
  }

  static Piece whole(const Stretch& stretch) {
    return {.begin = stretch.begin,
            .doc = stretch.doc,
            .length = static_cast<std::uint32_t>(stretch.end - stretch.begin)};
  }

  // What is too long and begins with a prompt loses, in this order, what follows the last learnt token, the prompt's
  // start (a turn that this would cut into goes as a whole), and only where a completion leaves its prompt no room at
  // all, the completion's end: then the prompt keeps up to half of the row.
  Piece without_start(const Stretch& stretch) {
    const auto [first, last] = store_.last_learnt(stretch.begin + 1, stretch.end);
    ++report_.cut;
    Piece piece{.begin = stretch.begin, .doc = stretch.doc, .length = static_cast<std::uint32_t>(most_)};
    if (last - stretch.begin > most_) {
      piece.has_first = most_ > 1 && store_.id(stretch.begin) == bos_;
      const std::uint64_t bos = piece.has_first ? 1 : 0, room = most_ - bos;
      const std::uint64_t prompt = first - stretch.begin - bos, half = std::max<std::uint64_t>(1, room / 2);
      piece.begin = last - first < room ? last - room : first - std::min(prompt, half);
      if (piece.begin < first) piece.begin = store_.learnt_until(piece.begin);
      piece.length = static_cast<std::uint32_t>(std::min(room, last - piece.begin) + bos);
      piece.has_next = piece.end() < last;
      if (piece.begin > stretch.begin + bos)
        ++report_.cut_prompts;
      else
        piece.begin = stretch.begin, piece.has_first = false;
    }
    report_.cut_tokens += static_cast<std::int64_t>(stretch.end - stretch.begin - piece.length);
    return piece;
  }

  // Only with a label: documents do not see each other, so another piece would be computed for nothing.
  void keep(const Piece& piece) {
    const std::int64_t learnt = store_.supervised(piece.first_target(), piece.targets_end());
    kept_ += learnt;
    report_.seams += store_.seams(piece.first_target(), piece.targets_end());
    if (learnt > 0 || store_.is_labelled()) table_.pieces.push_back(piece);
  }
  void keep(const Stretch& stretch, std::uint64_t begin, std::uint64_t length) {
    keep({.begin = begin,
          .doc = stretch.doc,
          .length = static_cast<std::uint32_t>(length),
          .has_next = begin + length < stretch.end});
  }

  // In a row of its own where it does not fit into the open one.
  void lay_whole(const Piece& piece) {
    if (options_.packing == Packing::concat && used_ + piece.length > most_) close_row();
    keep(piece);
    if (options_.packing != Packing::concat) return;
    used_ += piece.length;
    if (used_ == most_) close_row();
  }

  // Both return the number of pieces the stretch was cut into, whether kept or not.
  std::int64_t chop(const Stretch& stretch) {
    std::int64_t cuts = 0;
    for (std::uint64_t at = stretch.begin; at < stretch.end; at += most_, ++cuts)
      keep(stretch, at, std::min(most_, stretch.end - at));
    return cuts;
  }
  // A piece that is not kept takes its place all the same, so that rows end where they would have.
  std::int64_t lay_end_to_end(const Stretch& stretch) {
    std::int64_t cuts = 0;
    for (std::uint64_t at = stretch.begin; at < stretch.end; ++cuts) {
      const std::uint64_t length = std::min(most_ - used_, stretch.end - at);
      keep(stretch, at, length);
      at += length;
      used_ += length;
      if (used_ == most_) close_row();
    }
    return cuts;
  }
  void close_row() {
    used_ = 0;
    const std::uint64_t last = table_.ends.empty() ? 0 : table_.ends.back();
    if (table_.pieces.size() > last) table_.ends.push_back(table_.pieces.size());
  }

  // What is packed as one: a piece, or those of a group.
  std::size_t units() const { return units_.empty() ? table_.pieces.size() : units_.size() - 1; }
  std::uint64_t first_piece(std::size_t unit) const { return units_.empty() ? unit : units_[unit]; }

  void one_unit_each() {
    for (std::size_t unit = 0; unit < units(); ++unit) table_.ends.push_back(first_piece(unit + 1));
  }

  void pack() {
    std::vector<std::uint32_t> lengths(units());
    for (std::size_t unit = 0; unit < lengths.size(); ++unit)
      for (std::uint64_t i = first_piece(unit); i < first_piece(unit + 1); ++i)
        lengths[unit] += table_.pieces[i].length;
    const std::vector<std::uint32_t> bins = best_fit(lengths, static_cast<std::uint32_t>(capacity_));
    // A counting sort by bin: within a row, and among rows, the file's order stays.
    for (std::size_t unit = 0; unit < bins.size(); ++unit) {
      if (bins[unit] >= table_.ends.size()) table_.ends.resize(bins[unit] + 1);
      table_.ends[bins[unit]] += first_piece(unit + 1) - first_piece(unit);
    }
    std::partial_sum(table_.ends.begin(), table_.ends.end(), table_.ends.begin());
    std::vector<std::uint64_t> next(table_.ends.size());
    for (std::size_t row = 1; row < next.size(); ++row) next[row] = table_.ends[row - 1];
    std::vector<Piece> sorted(table_.pieces.size());
    for (std::size_t unit = 0; unit < bins.size(); ++unit)
      for (std::uint64_t i = first_piece(unit); i < first_piece(unit + 1); ++i)
        sorted[next[bins[unit]]++] = table_.pieces[i];
    table_.pieces = std::move(sorted);
  }

  const TokenStore& store_;
  const Dataset::Options& options_;
  const std::int32_t bos_;
  const NameOf& name_of_;
  DataReport& report_;
  const std::uint64_t most_, most_target_;  // tokens of a piece, of a target
  std::uint64_t capacity_;  // tokens of a row
  RowTable table_;
  std::vector<std::uint64_t> units_;  // of groups: where each begins in table_.pieces, and where the last one ends
  std::uint64_t used_ = 0;  // of concat: tokens laid in the open row
  std::int64_t kept_ = 0;   // learnt tokens of the document that is being laid
};

}  // namespace

std::span<const Piece> RowTable::row(std::int64_t row) const {
  const auto index = static_cast<std::size_t>(row);
  const std::uint64_t begin = index == 0 ? 0 : ends[index - 1];
  return std::span(pieces).subspan(begin, ends[index] - begin);
}

std::vector<std::uint32_t> best_fit(const std::vector<std::uint32_t>& lengths, std::uint32_t capacity) {
  HONE_ASSERT(lengths.size() < std::numeric_limits<std::uint32_t>::max());
  std::vector<std::uint32_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return lengths[a] > lengths[b]; });
  std::vector<std::uint32_t> bins(lengths.size());
  std::map<std::uint32_t, std::vector<std::uint32_t>> open;  // room left -> bins with exactly that
  std::uint32_t made = 0;
  for (const std::uint32_t item : order) {
    HONE_ASSERT(lengths[item] <= capacity);
    std::uint32_t room = capacity;
    const auto fit = open.lower_bound(lengths[item]);
    if (fit == open.end()) {
      bins[item] = made++;
    } else {
      room = fit->first;
      bins[item] = fit->second.back();
      fit->second.pop_back();
      if (fit->second.empty()) open.erase(fit);
    }
    if (room > lengths[item]) open[room - lengths[item]].push_back(bins[item]);
  }
  // Number the bins by their first item.
  std::vector<std::uint32_t> number(made, made);
  std::uint32_t next = 0;
  for (std::uint32_t& bin : bins) {
    if (number[bin] == made) number[bin] = next++;
    bin = number[bin];
  }
  return bins;
}

RowTable cut_and_pack(const TokenStore& store, const std::vector<Stretch>& stretches, const Dataset::Options& options,
                      std::int32_t bos, const NameOf& name_of, DataReport& report) {
  Cutter cutter(store, options, bos, name_of, report);
  for (const Stretch& stretch : stretches) cutter.add(stretch);
  return cutter.finish();
}

}  // namespace hone::data
