// What happened to the records of a data set.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hone {

// The numbers that documents are to be given for one label.
struct LabelNumbers {
  double low = 0, high = 0, sum = 0;
  std::int64_t count = 0;
};

// What happened to the records of a data set; printed and shown by `hone inspect data`.
struct DataReport {
  std::int64_t files = 0;
  std::int64_t records = 0, empty = 0, cut = 0, split = 0, dropped = 0, cut_tokens = 0;
  std::int64_t tokens = 0, supervised = 0, rows = 0, unsupervised_records = 0;
  std::int64_t cut_prompts = 0;      // of `cut`: records whose prompt lost its start
  std::int64_t lost_supervised = 0;  // learnt tokens that were cut off or dropped
  std::int64_t asked = 0;            // prompts that are to be answered
  std::int64_t without_answer = 0;   // of them: with nothing to compare answers with
  std::int64_t seams = 0;            // learnt tokens that hold the end of a prompt and the beginning of its completion
  std::int64_t repeated = 0;         // records that were left out, as an earlier one is the same
  std::int64_t pieces = 0;           // documents, or parts of them, that rows were packed from
  std::int64_t without_prompt = 0;   // of `pieces`: of documents that are learnt from their first token on
  std::int64_t pictures = 0, picture_tokens = 0;  // of documents in rows
  std::int64_t with_pictures = 0;    // of `dropped`: records with pictures, which are not cut
  std::map<std::string, std::vector<std::string>> unread_fields = {};  // of each file that was read, not cached
  // How many documents in rows have each label, of tagged records and steps how many tokens; of judged records how many
  // are "desirable" and "undesirable".
  std::map<std::string, std::int64_t> labels = {};
  std::map<std::string, LabelNumbers> label_numbers = {};  // of regression instead
};

}  // namespace hone
