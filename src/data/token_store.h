// All tokens of one file in flat arrays: documents, which tokens are learnt, and where each came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "data/column.h"
#include "data/new_token_file.h"
#include "data/taught.h"
#include "hone/data.h"
#include "hone/questions.h"

namespace hone {
class Hasher;  // base/hash.h
}

namespace hone::data {

// What a labelled document says besides its tokens.
struct DocLabel {
  std::string name;
  std::uint32_t second = 0;  // where its second text begins; its length: there is none
  std::uint32_t cut = 0;     // tokens that it has lost
};

// The names of its tokens' labels, where each token has one of its own.
struct DocTags {
  std::vector<std::string> names = {};
  std::uint32_t cut = 0;  // tokens that it has lost
  std::int64_t crowded = 0;  // entities that lost a word to another one
  std::uint32_t second = 0xFFFFFFFF;  // where its second text begins; beyond its tokens: there is none
};

// A picture of a document, or a tile of one: it takes the place of so many tokens, from `begin` on. Tiles behind the
// first one have no file: it is the same.
struct PlacedPicture {
  std::uint64_t begin = 0, tokens = 0;
  PictureFile file = {};
  std::uint64_t tile = 0;
};

struct TokenFileHeader;

// Where a store goes while it is filled, so that a data set may be larger than memory.
struct TokenPlace {
  std::string folder = "", name = "", key = "";  // of the token cache; no folder: it stays in memory
  // Of ids in memory, and of a teacher's log-probabilities, until the file is begun.
  std::uint64_t most_bytes = std::uint64_t{64} << 20;
};

// Positions count through the whole file. Filled by one thread, then immutable and shared by any: ids are read when
// that is done.
class TokenStore {
 public:
  TokenStore() = default;
  explicit TokenStore(TokenPlace place) : place_(std::move(place)) {}
  struct Counts {
    std::int64_t records = 0, empty = 0;  // read; without any token (they are no documents)
    std::int64_t not_text = 0;            // documents that did not come from a `text` field
    std::int64_t max_id = -1;
  };
  // A label that is not the id at its position; only explicit labels have them.
  struct Exception {
    std::uint64_t position = 0;
    std::int64_t label = 0;
  };

  static constexpr std::uint32_t kOfTokens = 0xFFFFFFFF;  // instead of a label's name: each token has its own
  struct Label {
    std::uint32_t name = 0, second = 0, cut = 0;  // name: index of label_names(); the others as in DocLabel
  };

  struct Picture {
    std::uint64_t begin = 0, tokens = 0;  // where it is among all tokens
    std::uint64_t end = 0;  // of its path, or of what is in it, in the text of all
    std::uint64_t kind = 0;
    static constexpr std::uint64_t kBytes = 0, kPath = 1, kTile = 2;  // kTile: one more of the picture before it
  };

  // What a document is in a group of them.
  struct Member {
    std::uint32_t group = 0;  // counted from 0
    Role role = Role::none;
  };

  // No ids: counted as empty. seams: which of them hold characters of both a prompt and its completion.
  void add(const Tokens& tokens, std::int64_t line, bool from_text, std::span<const std::size_t> seams = {});

  // Of the document added last. All documents of a file have a label, or none.
  void label_last(const DocLabel& label);

  // A document whose labels count the names of `tags`. All documents of a file are such, or none.
  void add_tagged(Tokens tokens, const DocTags& tags, std::int64_t line);
  // One more such of the same record and group. REQUIRES: ids.
  void add_tagged_companion(Tokens tokens, const DocTags& tags);
  // Of the document added last: what it was made from. In memory alone: no file has it.
  void keep_question(QuestionDoc question);
  const QuestionDoc* question(std::int64_t doc) const;  // null: it was not kept
  // Of the document added last: what it says, and what else would be good. Likewise.
  void keep_references(std::vector<std::string> texts) { references_[docs() - 1] = std::move(texts); }
  const std::vector<std::string>* references(std::int64_t doc) const {  // null: they were not kept
    const auto found = references_.find(doc);
    return found == references_.end() ? nullptr : &found->second;
  }
  // DocTags::crowded of all documents, and the line of the first that has any. Of a store that is being filled: no file
  // has it.
  std::pair<std::int64_t, std::int64_t> crowded() const { return {crowded_, crowded_line_}; }

  // The document added last is the first of a group. All documents of a file are in groups, or none.
  void begin_group(Role role);
  // One more document of the same record and group. REQUIRES: ids.
  void add_companion(const Tokens& tokens, Role role, std::span<const std::size_t> seams = {});

  // The document added last is an answer to choose from, of so many characters. All documents of a file are, or none.
  void count_last(std::uint32_t characters);

  // Of the document added last, in order, with places in it. What is no path is kept whole.
  void add_pictures(std::span<const PlacedPicture> pictures);
  // Those in [begin, end), with places from `begin` on.
  std::vector<PlacedPicture> pictures(std::uint64_t begin, std::uint64_t end) const;
  bool has_pictures(std::uint64_t begin, std::uint64_t end) const;
  // Of pictures that are no more than named, with the document that each is in.
  void each_picture_path(const std::function<void(std::string_view path, std::int64_t doc)>& visit) const;

  // Before and behind a document of which a teacher was asked. Of a file's documents it was asked of all, or of none.
  void expect_teacher(const DocTeacher& said, const std::function<std::string()>& place) {
    taught_.expect(said.width, place);
  }
  void teach_last(const DocTeacher& said);
  const TaughtColumns& taught() const { return taught_; }

  // As Record's: known to whom made the store, not kept in its file.
  void add_fields(const std::vector<std::string>& unread, const std::vector<std::string>& renamed) {
    unread_.insert(unread_.end(), unread.begin(), unread.end());
    renamed_.insert(renamed_.end(), renamed.begin(), renamed.end());
  }
  const std::vector<std::string>& unread() const { return unread_; }
  const std::vector<std::string>& renamed() const { return renamed_; }

  std::int64_t docs() const { return static_cast<std::int64_t>(lines_.size()); }
  std::uint64_t size() const { return ends_.empty() ? 0 : ends_.back(); }
  std::uint64_t begin(std::int64_t doc) const { return doc == 0 ? 0 : ends_[static_cast<std::size_t>(doc) - 1]; }
  std::uint64_t end(std::int64_t doc) const { return ends_[static_cast<std::size_t>(doc)]; }
  std::int64_t line(std::int64_t doc) const { return lines_[static_cast<std::size_t>(doc)]; }
  const Counts& counts() const { return counts_; }
  bool is_labelled() const { return !labels_.empty(); }
  // Then copy_labels() gives of each token which of label_names() it has, and none is a target of the token before it.
  bool is_tagged() const { return is_labelled() && labels_[0].name == kOfTokens; }
  const Label& label(std::int64_t doc) const { return labels_[static_cast<std::size_t>(doc)]; }
  bool is_grouped() const { return !members_.empty(); }
  Role role(std::int64_t doc) const { return is_grouped() ? members_[static_cast<std::size_t>(doc)].role : Role::none; }
  std::int64_t group(std::int64_t doc) const {  // -1: there are none
    return is_grouped() ? std::int64_t{members_[static_cast<std::size_t>(doc)].group} : -1;
  }
  bool counts_characters() const { return !characters_.empty(); }
  std::uint32_t characters(std::int64_t doc) const { return characters_[static_cast<std::size_t>(doc)]; }
  // The document behind the last one that belongs with this one.
  std::int64_t group_end(std::int64_t doc) const;
  const std::vector<std::string>& label_names() const { return label_names_; }  // in order of their first document
  // What is learnt of the document: its ids and labels, its label's name, its role in a group.
  void add_content(Hasher& hasher, std::int64_t doc) const;
  std::int64_t highest_exception() const;  // the largest label that is not its id; -1: none

  std::int32_t id(std::uint64_t position) const {
    return narrow_ids() ? ids16_[position] : static_cast<std::int32_t>(ids32_[position]);
  }
  void copy_ids(std::uint64_t begin, std::uint64_t end, std::int64_t* into) const;
  // Labels of the tokens at [begin, end) as targets; -100 where nothing is learnt.
  void copy_labels(std::uint64_t begin, std::uint64_t end, std::int64_t* into) const;
  std::int64_t supervised(std::uint64_t begin, std::uint64_t end) const;  // how many of them are learnt
  std::int64_t seams(std::uint64_t begin, std::uint64_t end) const;       // how many hold prompt and completion
  // The last tokens in a row at [begin, end) that are learnt; {end, end}: there are none.
  std::pair<std::uint64_t, std::uint64_t> last_learnt(std::uint64_t begin, std::uint64_t end) const;
  // Where the learnt tokens that `position` belongs to end; `position` itself if it is not learnt.
  std::uint64_t learnt_until(std::uint64_t position) const;
  // Whether the document begins with tokens that are not learnt, so that what follows answers them.
  bool has_prompt(std::int64_t doc) const { return learnt_until(begin(doc)) == begin(doc); }

  // Nothing is added from here on. Of a store with a place: what did not fit is in a file now, mapped, and goes with
  // the store unless it is saved.
  void finish();

  // In its place, if it has one: a file with a checked header, see docs of the token cache in token_store_file.cc. Not
  // after finish() or a document before it has warned that this cannot be. Throws Error(data); it is in memory then.
  void save();
  // nullptr: there is none. Throws Error(data) for a damaged one or one of another key.
  static std::shared_ptr<const TokenStore> load(const std::string& folder, const std::string& name,
                                                const std::string& key);

 private:
  bool narrow_ids() const { return counts_.max_id <= 0xFFFF; }
  void widen();
  void put_away_when_many();
  void put_away();
  void begin_file();
  void widen_file();
  void complete_file();
  void take_back();
  void give_up(const Error& why);
  TokenFileHeader header() const;
  std::string_view lie_in(std::shared_ptr<const std::byte> bytes, const TokenFileHeader& header);
  void label_tokens(Tokens& tokens, const DocTags& tags);
  void add_document(const Tokens& tokens, std::int64_t line, std::span<const std::size_t> seams);
  void add_labels(const Tokens& tokens, std::uint64_t base);
  std::uint32_t index_of(const std::string& label_name);
  void add_range(std::uint64_t begin, std::uint64_t end);
  std::size_t first_range_after(std::uint64_t position) const;
  void check() const;  // throws if the arrays contradict each other

  Column<std::uint16_t> ids16_;  // while every id fits, else ids32_; while it is filled: those behind put_away_
  Column<std::uint32_t> ids32_;
  Column<std::uint64_t> ends_;  // of document i
  Column<std::int64_t> lines_;  // of document i in its file
  // begin, end, begin, end, ... of learnt tokens; ascending. A document's first token is in one where the document has
  // no prompt, although nothing before it can predict it.
  Column<std::uint64_t> ranges_;
  Column<Exception> exceptions_;  // ascending
  Column<std::uint64_t> seams_;   // positions of tokens that hold characters of a prompt and its completion
  Column<Label> labels_;          // of document i; empty: none has one
  Column<Member> members_;        // of document i; empty: there are no groups
  Column<std::uint32_t> characters_;  // of the answer of document i; empty: they are not counted
  std::size_t first_picture_from(std::uint64_t position) const;
  Column<Picture> pictures_;  // ascending
  Column<char> picture_text_;
  TaughtColumns taught_;
  std::int64_t crowded_ = 0, crowded_line_ = 0;
  std::vector<QuestionDoc> questions_;  // of document i; empty: they are not kept
  std::unordered_map<std::int64_t, std::vector<std::string>> references_;
  std::vector<std::string> label_names_;
  std::map<std::string, std::uint32_t> label_index_;  // while it is filled
  Counts counts_;
  std::vector<std::string> unread_, renamed_;
  TokenPlace place_;
  std::unique_ptr<NewTokenFile> file_;      // with the ids that were put away
  std::uint64_t put_away_ = 0;              // how many
  std::shared_ptr<const std::byte> bytes_;  // that the arrays lie in; null: they are in memory
};

}  // namespace hone::data
