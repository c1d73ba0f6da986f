// What a model with a head for tokens says of words, entities and steps: for hone classify.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "data/place.h"
#include "data/templates.h"
#include "data/tokenise.h"
#include "data/words.h"
#include "hone/hub.h"
#include "hone/model.h"

namespace hone::cli {

// Its ids as a document of a batch, without targets. Throws Error(data) for one that the model does not have.
HostDoc document_of(std::span<const std::int32_t> ids, const Model& model, const data::Place& place);

// What follows each step of an answer: as it was given, as the run that the model is of learnt it, or a new line.
std::string step_separator_of(const ModelPlace& place, const std::optional<std::string>& given);

class TokenAnswers {
 public:
  struct How {
    std::map<std::string, std::string> columns = {};  // of text, tokens, prompt, completions
    Dataset::Options data = {};                       // max_length, and how steps become tokens
    std::int64_t batch_size = 8;
    bool words = false, json = false;  // words: all of them, whether entities are marked or not
  };
  // Throws Error(usage) for columns that are not read.
  TokenAnswers(const Model& model, const Tokenizer& tokenizer, How how);
  // A text, or an object with text, tokens (a list of words), or prompt and completions (steps). Throws Error(data).
  void add(nlohmann::ordered_json value, const data::Place& place);
  void flush();
  std::int64_t answered() const { return answered_; }
  std::int64_t cut() const { return cut_; }
  const std::set<std::string>& unread() const { return unread_; }

 private:
  // What is said of one token stands for a word or a step.
  struct Part {
    std::size_t token = 0;
    std::string text = {};
    std::int64_t start = 0, end = 0;  // characters of the text, or words of a list
    data::WordRange bytes = {};       // of Asked::text
    std::size_t label = 0;
    std::vector<double> probabilities = {};
  };
  struct Asked {
    HostDoc document = {};
    std::vector<Part> parts = {};
    std::string text = {};  // that the words stand in
    bool of_steps = false;
  };
  const nlohmann::ordered_json* find(const nlohmann::ordered_json& value, const char* known) const;
  Asked words_of(const nlohmann::ordered_json& value, const data::Place& place);
  Asked steps_of(const nlohmann::ordered_json& value, const data::Place& place);
  nlohmann::ordered_json entities_of(const Asked& asked) const;
  nlohmann::ordered_json parts_of(const Asked& asked) const;
  void print(const Asked& asked) const;

  const Model& model_;
  const Tokenizer& tokenizer_;
  const How how_;
  const data::ColumnTemplates templates_;
  std::vector<Asked> waiting_;
  std::set<std::string> unread_;
  std::int64_t answered_ = 0, cut_ = 0;
};

}  // namespace hone::cli
