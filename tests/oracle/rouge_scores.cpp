// rouge_scores < PAIRS.json: [[generated, reference], ...] -> [[rouge1, rouge2, rougeL], ...] on standard
// output.
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "text/rouge.h"

int main() {
  nlohmann::json scores = nlohmann::json::array();
  for (const auto& pair : nlohmann::json::parse(std::cin)) {
    const auto found = echelon::rouge(pair.at(0).get<std::string>(), pair.at(1).get<std::string>());
    scores.push_back({found.rouge1, found.rouge2, found.rouge_l});
  }
  std::cout << scores.dump();
  return 0;
}
