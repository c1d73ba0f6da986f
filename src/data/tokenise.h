// Record -> Tokens: which ids a record becomes and which of them are learnt.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "data/record_tokens.h"
#include "data/token_store.h"
#include "hone/data.h"

namespace hone::data {

// text: the tokenizer's special tokens, the text, eos; all learnt. prompt + completion: tokenised as one text, then
// eos; tokens that hold a character of the completion and what follows them are learnt, by position; those that hold
// one of the prompt, too, are its seams. input_ids: as they are, labels (default: the ids) say what is learnt. eos is
// added when append_eos, the tokenizer has one and it is not the last already. A conversation: what the chat template
// makes of it, nothing added; the assistant's turns are learnt. `loss` chooses otherwise. A text with a label, or two:
// as the tokenizer puts them together, shortened where they are too long; no token is learnt. Texts to embed: each a
// document of its own, the query first, behind its prompt, likewise shortened; none of it is learnt. A question: its
// windows, each a document (question_windows()). A source and its target: two documents (seq2seq.h). A preference
// pair: two documents, each the prompt with one of the answers, as prompt + completion. A judged answer: one such, as
// chosen if it is desirable, else as rejected. What is asked: the prompt as a model reads it that is to go on, and
// behind it what answers are compared with, whose tokens alone have labels. Answers to choose from: documents as
// prompt + completion without eos, the right one as chosen, the others as rejected; white space at the end of the
// prompt belongs to the answers, and a space stands between where neither has any. No ids at all: the record is empty.
// Of a text or a conversation with pictures the token that stands for these comes as often as they have tokens; none of
// it is learnt. Throws Error(data) with the place.
RecordTokens to_tokens(const Record& record, const Tokenising& how, const std::string& path);

// Puts a record's documents behind those of the store, as coming from this line. Throws Error(data) that names the
// record of this path where it does not go with those.
void add_record(TokenStore& store, const Record& record, const RecordTokens& tokens, std::int64_t line,
                const std::string& path = "");

// Records in order, on their way through the threads that tokenise them. One thread calls it.
class Pipeline {
 public:
  struct Item {
    Record record = {};
    std::string path = {};  // of the file that it comes from, for messages
    RecordTokens tokens = {};
  };
  // read: gives the next record with its path, false at the end; called by next() for some records more than it gives.
  Pipeline(std::function<bool(Item&)> read, const Tokenising& how, std::size_t threads = 0);  // 0: as many as there are
  ~Pipeline();
  bool next(
      Item& item);  // false: no more; throws what reading and tokenising threw, once the records before are through

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// All records of a file, tokenised on several threads, in the file's order.
std::shared_ptr<TokenStore> tokenise_file(const DataFile& file, const Tokenising& how, TokenPlace place = {});

// The same, handed out one by one; for `hone tokenize`.
void each_tokens(const DataFile& file, const Tokenising& how,
                 const std::function<void(const RecordTokens& tokens, const Record& record)>& visit);

}  // namespace hone::data
