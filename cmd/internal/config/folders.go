package config

import "path/filepath"

// BrokerFolder is where the embedded broker keeps its data.
func (c *Config) BrokerFolder() string { return filepath.Join(c.Data, "broker") }

// StoreFolder is where the disk store keeps its data.
func (c *Config) StoreFolder() string { return filepath.Join(c.Data, "store") }

// BrokerSocket is where the embedded broker of a running process listens for the tool, and nobody else.
func (c *Config) BrokerSocket() string { return filepath.Join(c.BrokerFolder(), "kafka.sock") }

// AggregatorGroup is the group of all aggregators, whose commits say how far the hits are counted.
func (c *Config) AggregatorGroup() string { return c.Kafka.Prefix + "aggregator" }

// CollectorGroup is the group of all collectors that read a Kafka source.
func (c *Config) CollectorGroup(s *Source) string { return c.Kafka.Prefix + "collector." + s.Name }
